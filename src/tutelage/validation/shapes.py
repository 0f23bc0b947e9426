"""Shape and label checks of batches, losses and ids."""

from typing import Any

import torch
from torch import Tensor

from tutelage.errors import UnknownLabelError, UsageError, first_few
from tutelage.types import Batch, Outputs, PreparedBatch

TORCH_IGNORES = -100
"""the label that torch's losses leave out of a mean by default"""


def require_batch(name: str, batch: Batch, *, empty: bool = True) -> Batch:
    """Refuse a batch whose parts do not belong together. Costs no wait for a device."""
    if not isinstance(batch, Batch):
        raise UsageError(
            f"{name} is {kind(batch)}; allowed: tutelage.Batch(inputs, targets, ids). "
            "tutelage.integrations.Teaching converts what loaders give."
        )
    for part, value in zip(("inputs", "targets", "ids"), batch, strict=False):
        if not isinstance(value, Tensor) or value.ndim == 0:
            received = (
                f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else kind(value)
            )
            raise UsageError(
                f"{name}.{part} is {received}; allowed: a tensor with a row for each example."
            )
    _require_ids(name, batch.ids)
    require_rows(name, batch)
    if not empty and not len(batch.ids):
        raise UsageError(f"{name} has no row; allowed: one row and above.")
    return batch if batch.ids.dtype == torch.int64 else batch._replace(ids=batch.ids.long())


def require_tensors(owner: str, **values: object) -> None:
    """Refuse lists, NumPy arrays and other things in place of tensors; None is passed over."""
    for name, value in values.items():
        if value is not None and not isinstance(value, Tensor):
            raise UsageError(
                f"{owner} takes {name} as a tensor, got {kind(value)}: give what "
                "torch.as_tensor makes of it."
            )


def require_rows(name: str, rows: Batch | PreparedBatch) -> None:
    """Raise if inputs, targets and ids differ in length."""
    inputs, targets, ids = len(rows.inputs), len(rows.targets), len(rows.ids)
    if not inputs == targets == ids:
        raise UsageError(
            f"{name} has {inputs} rows of inputs, {targets} of targets and {ids} of ids; "
            "allowed: one of each for each example."
        )


def _require_ids(name: str, ids: Tensor) -> None:
    whole = not (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool)
    if not whole or ids.ndim != 1:
        raise UsageError(
            f"{name}.ids are {described(ids)}; allowed: whole numbers of shape "
            f"({len(ids)},), by which a teacher knows examples again."
        )


def require_known_ids(ids: Tensor, known: Tensor, owner: str) -> None:
    """Raise for unknown ids on the CPU; ids on a GPU are not read."""
    if ids.device.type == "cpu" and not bool(known.all()):
        raise UsageError(f"{owner} for {_listed(ids[~known])} of the batch.")


def require_finite_weights(
    weights: Tensor, losses: Tensor, ids: Tensor, teacher: object
) -> None:
    """Raise if a weight is not finite where its loss is; synchronises with the device."""
    if bool(weights.isfinite().all()):
        return
    wrong = ~weights.reshape(len(losses), -1).isfinite().all(1) & losses.isfinite()
    if bool(wrong.any()):
        raise UsageError(
            f"{type(teacher).__name__} has no finite weight for {_listed(ids[wrong])} of the "
            f"batch, but {float(weights.reshape(-1)[wrong][0]):g}; allowed: finite numbers. "
            "Stored weights must be those of every example that is trained on."
        )


def _listed(ids: Tensor) -> str:
    return f"the ids {first_few(ids.unique().tolist())}"


def require_losses(
    losses: object, objective: object, outputs: Outputs, rows: Batch | PreparedBatch
) -> Tensor:
    """Raise unless losses are one floating-point number for each row."""
    wanted = (len(rows.targets),)
    fits = isinstance(losses, Tensor) and losses.is_floating_point() and losses.shape == wanted
    if fits:
        assert isinstance(losses, Tensor)
        return losses
    received = described(losses) if isinstance(losses, Tensor) else kind(losses)
    first = outputs if isinstance(outputs, Tensor) else outputs[0]
    raise UsageError(
        f"The losses of {named(objective)} are {received}, for outputs of shape "
        f"{tuple(first.shape)} and targets of shape {tuple(rows.targets.shape)}; allowed: one "
        f"floating-point number for each row, shape {wanted}. Torch's own losses give it with "
        "reduction='none'."
    )


def require_targets(
    rows: Batch | PreparedBatch, losses: Tensor, objective: object, *, known: bool
) -> None:
    """Raise if targets are not finite, or ignored labels are not declared.

    Both where the losses show it: an objective may know what to do with such targets. Waits
    for the device.
    """
    targets = rows.targets
    if known and not targets.is_floating_point():
        return
    if targets.is_floating_point():
        wrong, shown = ~targets.isfinite(), ~losses.isfinite()
    else:
        wrong, shown = targets == TORCH_IGNORES, losses == 0
    if not bool(wrong.any()):
        return
    wrong = wrong.reshape(len(losses), -1)
    wrong = (wrong.any(1) if targets.is_floating_point() else wrong.all(1)) & shown
    if not bool(wrong.any()):
        return
    row = int(wrong.nonzero()[0])
    where = f"row {row} of the batch (id {int(rows.ids[row])})"
    if targets.is_floating_point():
        value = float(next(x for x in targets[row].flatten() if not x.isfinite()))
        raise UsageError(
            f"the target of {where} is {value:g}; allowed: finite numbers. Leave such examples "
            "out."
        )
    raise UsageError(
        f"{where} has the label {TORCH_IGNORES} and loss 0, as one that is to be left out, but "
        f"{named(objective)} does not say which rows count: take "
        f"tutelage.losses.targets.CrossEntropy(ignored=({TORCH_IGNORES},)), "
        "torch.nn.CrossEntropyLoss(reduction='none'), or give it a method counts(targets)."
    )


def class_targets(logits: Tensor, targets: Tensor, name: str) -> Tensor:
    """A classifier's targets in the dtype that torch expects."""
    soft = targets.is_floating_point()
    fits = logits.ndim == 2 and targets.shape == (logits.shape if soft else logits.shape[:1])
    if not fits or targets.is_complex():
        raise UsageError(
            f"{name} takes logits [L, C] and class ids [L] in whole numbers, or soft labels "
            f"[L, C]; the logits are {described(logits)}, the targets are {described(targets)}."
        )
    return targets.to(logits.dtype) if soft else targets.long()


def require_classes(targets: Tensor, classes: int, ignored: tuple[int, ...] = ()) -> None:
    """Raise if a label is neither a class nor ignored.

    Reading labels that are on a GPU waits for it: check them before they go there.
    """
    wrong = ((targets < 0) | (targets >= classes)) & is_none_of(targets, ignored)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0, 0])
        label = int(targets[wrong][0])
        raise UnknownLabelError(
            f"row {row} of the batch has label {label}; allowed: 0..{classes - 1}. "
            "Where it marks an unlabelled example, declare it: "
            f"objective=CrossEntropy(ignored=({label},))."
        )


def is_none_of(targets: Tensor, labels: tuple[int, ...]) -> Tensor:
    """Which targets differ from some labels."""
    known = torch.ones_like(targets, dtype=torch.bool)
    for label in labels:
        known = known & (targets != label)
    return known


def described(tensor: Tensor) -> str:
    """A tensor's dtype and shape in words."""
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def named(function: Any) -> str:
    """The name of a function or callable object."""
    found = getattr(function, "__name__", type(function).__name__)
    return "the objective" if found == "<lambda>" else f"the objective {found}"


def kind(value: object) -> str:
    """The type of a value in words."""
    return "None" if value is None else f"a {type(value).__name__}"
