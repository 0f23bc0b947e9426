"""Checks of probabilities and labels."""

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.precision import upcast
from tutelage.validation.shapes import described, require_tensors

ROUNDING = 1e-2
"""by how much a row of probabilities may miss a sum of one, as in half precision"""


def require_probabilities(name: str, rows: Tensor) -> None:
    """Raise for rows [N, C] that are no probability distributions; waits for the device."""
    require_tensors("cross-fitting", **{name: rows})
    if not rows.is_floating_point() or rows.ndim != 2 or not rows.shape[1]:
        raise UsageError(
            f"{name} are {described(rows)}; allowed: floating-point numbers of shape [N, C], a "
            "row for each example and a column for each class."
        )
    off = (upcast(rows).sum(1) - 1).abs()
    wrong = ~((rows >= 0).all(1) & (off <= ROUNDING))  # not finite: both are false
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0, 0])
        raise UsageError(
            f"row {row} of {name} is no distribution: its least number is "
            f"{float(rows[row].min()):g} and its sum {float(rows[row].sum()):g}; allowed: "
            "numbers of 0 and above that sum to 1, as softmax gives them."
        )


def require_labels(name: str, labels: Tensor, rows: int, classes: int | None = None) -> Tensor:
    """Labels in int64; raises unless they are one class a row. Waits for the device.

    None: the number of classes is not known yet.
    """
    require_tensors("cross-fitting", **{name: labels})
    integral = not (
        labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool
    )
    if not integral or labels.shape != (rows,):
        raise UsageError(
            f"{name} are {described(labels)}; allowed: one class id for each of {rows} rows, "
            "in whole numbers."
        )
    wrong = labels < 0 if classes is None else (labels < 0) | (labels >= classes)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0, 0])
        allowed = "0 and above" if classes is None else f"0..{classes - 1}"
        raise UsageError(f"row {row} of {name} is {int(labels[row])}; allowed: {allowed}.")
    return labels.long()
