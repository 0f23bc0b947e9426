"""Folds: the part of the data to which each example belongs."""

import torch
from jaxtyping import Int64
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.validation.shapes import described


def stratified_folds(labels: Tensor, folds: int = 5, *, seed: int) -> Int64[Tensor, "N"]:
    """Split examples into folds that differ by at most one in size, and by one in each class.

    Args:
        labels: The given labels [N], any whole numbers; a class may have fewer members than
            there are folds.
        folds: How many, 2..N.
        seed: Of the shuffle within each class.

    Returns:
        The fold of each example, 0..folds-1, on the labels' device.

    Raises:
        UsageError: If there are fewer than 2 folds or more than examples, or labels are no
            whole numbers [N].
    """
    if labels.ndim != 1 or labels.is_floating_point() or labels.is_complex():
        raise UsageError(
            f"labels are {described(labels)}; allowed: whole numbers of shape [N]."
        )
    if len(labels) < 2:
        raise UsageError(f"{len(labels)} examples make no folds; allowed: two and more.")
    if not 2 <= folds <= len(labels):
        raise UsageError(
            f"folds is {folds}; allowed: 2..{len(labels)}, the number of examples."
        )
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    by_class = shuffled[labels.cpu()[shuffled].argsort(stable=True)]
    assigned = torch.empty(len(labels), dtype=torch.int64)
    assigned[by_class] = torch.arange(len(labels)) % folds
    return assigned.to(labels.device)


def fold_count(folds: Tensor) -> int:
    """The number of folds; raises where they are none."""
    integral = folds.ndim == 1 and not folds.is_floating_point() and not folds.is_complex()
    if not integral or not len(folds):
        raise UsageError(f"folds are {described(folds)}; allowed: whole numbers of shape [N].")
    if int(folds.min()) < 0:
        raise UsageError(f"a fold is {int(folds.min())}; allowed: 0..F-1.")
    sizes = torch.bincount(folds)
    if len(sizes) < 2 or not bool(sizes.all()):
        raise UsageError(
            f"the folds have {sizes.tolist()} examples; allowed: two folds and above, numbered "
            "from 0, each with one example and above."
        )
    return len(sizes)
