"""Models with keyword inputs as students with a single input tensor."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tutelage.errors import UnsupportedStudentError, UsageError, first_line
from tutelage.functional.module_state import modes_kept
from tutelage.integrations.trainer_loss import TrainerLoss as TrainerLoss
from tutelage.randomness import seeded
from tutelage.types import Batch


@contextmanager
def by_columns(model: nn.Module, columns: Sequence[str]) -> Iterator[None]:
    """Let a model take one stacked tensor and return logits inside.

    Note: raises ``UnsupportedStudentError`` where the model gives no logits.
    """

    def named(_model: nn.Module, args: tuple[Tensor], _named: Mapping[str, Any]) -> Any:
        (inputs,) = args
        parts = (inputs,) if len(columns) == 1 else inputs.unbind(1)
        # as columns of their own: models take views of them
        return (), {k: part.contiguous() for k, part in zip(columns, parts, strict=True)}

    def logits(_model: nn.Module, _args: object, outputs: Any) -> Tensor:
        found = getattr(outputs, "logits", outputs)
        if isinstance(found, Tensor):
            return found
        raise UnsupportedStudentError(
            f"{type(model).__name__} gives a {type(outputs).__name__} without logits."
        )

    handles = (
        model.register_forward_pre_hook(named, with_kwargs=True),
        model.register_forward_hook(logits),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def stacked(
    inputs: Mapping[str, Any], label: str, id_column: str | None
) -> tuple[tuple[str, ...], Batch]:
    """Stack the columns of a batch into one tensor."""
    names = [name for name in inputs if name not in (label, id_column)]
    if label not in inputs:
        raise UsageError(f"The batch has no column '{label}' of targets, only {_list(names)}.")
    targets = inputs[label]
    if id_column is None:
        ids = torch.full((len(targets),), -1, device=targets.device)
    elif id_column in inputs:
        ids = inputs[id_column].long()
    else:
        raise UsageError(
            f"The batches have no column '{id_column}', by which a teacher knows examples "
            f"again, only {_list([*names, label])}. Give the training set one, "
            f"dataset.add_column('{id_column}', list(range(len(dataset)))), or name it by "
            "teach(..., id_column=...). If the set has one, it is the data collator that drops "
            "it: remove_unused_columns=True keeps it."
        )
    columns = sorted(names)
    shapes = {name: tuple(inputs[name].shape) for name in columns}
    kinds = {inputs[name].dtype for name in columns}
    if not columns or len(set(shapes.values())) > 1 or len(kinds) > 1:
        seen = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
        raise UsageError(
            "A student is shown columns of one shape and type, but the batch holds "
            f"{seen}: such a model is to be taught in a loop of your own."
        )
    tensors = [inputs[name] for name in columns]
    shown = tensors[0] if len(tensors) == 1 else torch.stack(tensors, 1)
    return tuple(columns), Batch(shown, targets, ids)


@contextmanager
def evaluation_mode(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Call a model in evaluation mode, without graph and with fixed random numbers, inside."""
    with modes_kept(model):
        model.eval()
        with seeded(0, device), torch.no_grad():
            yield


def logits_without_labels(
    model: nn.Module, columns: Sequence[str], batch: Batch, outputs: Any
) -> Tensor:
    """The logits of a model called without labels."""
    why = "its logits are others"
    try:
        with by_columns(model, columns):
            found = model(batch.inputs)
        before = getattr(outputs, "logits", found)
        if before.shape == found.shape and torch.allclose(before, found, 1e-2, 1e-2):
            return found
    except ValueError as error:
        why = first_line(error)
    raise UnsupportedStudentError(
        f"{type(model).__name__} is not to be called without its labels, as a student is "
        f"({why}): teach it in a loop of your own, as an encoder and decoder."
    )


def _list(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
