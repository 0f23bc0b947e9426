"""Models that are called with named columns, as students that are called with one tensor."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tutelage.errors import UnsupportedStudentError, UsageError
from tutelage.objectives import (
    TokenCrossEntropy,
    binary_cross_entropy,
    squared_error,
)
from tutelage.records import Batch


@contextmanager
def by_columns(model: nn.Module, columns: Sequence[str]) -> Iterator[None]:
    """Let a model of ``transformers`` be called with one tensor and give logits, inside.

    Args:
        model: Called with named columns outside, and gives ``logits``.
        columns: Their names, in the order in which ``stacked`` lays them.

    Yields:
        Nothing.

    Note: raises ``UnsupportedStudentError`` where the model gives no logits.
    """

    def named(_model: nn.Module, args: tuple[Tensor], _named: Mapping[str, Any]) -> Any:
        (inputs,) = args
        parts = (inputs,) if len(columns) == 1 else inputs.unbind(1)
        return (), dict(zip(columns, parts, strict=True))

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
    """A batch by column as one tensor.

    Args:
        inputs: Tensors by name.
        label: The column of targets.
        id_column: The column of identities; None: ids are -1.

    Returns:
        The columns that are inputs, sorted; the batch.

    Raises:
        UsageError: If targets or identities are missing, or inputs differ in shape or type.
    """
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


@dataclass(frozen=True)
class TrainersLoss:
    """What the Trainer trains a model by, for each example: its kind of task and smoothing.

    Classes and tokens: cross entropy with label smoothing; regression: squared error; several
    labels: binary cross entropy. Tokens whose label is -100 do not count. The loss of a
    sequence is the mean over its own tokens, where the Trainer's is that over all tokens of a
    batch, by which long sequences count more.
    """

    task: str = "single_label_classification"
    """as ``problem_type`` of a configuration"""
    shifts: bool = False
    """whether logits at t predict token t + 1"""
    smoothing: float = 0.0

    @classmethod
    def of(cls, model: nn.Module, smoothing: float) -> "TrainersLoss":
        """The loss of a model, by its name and configuration.

        Args:
            model: Of ``transformers``.
            smoothing: The Trainer's ``label_smoothing_factor``.

        Returns:
            The loss.
        """
        config = getattr(model, "config", None)
        one = getattr(config, "num_labels", 2) == 1
        task = getattr(config, "problem_type", None)
        task = task or ("regression" if one else "single_label_classification")
        shifts = type(model).__name__.endswith(("ForCausalLM", "LMHeadModel"))
        return cls(task, shifts, smoothing)

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """One loss per example.

        Args:
            logits: [B, C], or [B, T, V].
            targets: As the model takes its labels; or soft labels [B, C].

        Returns:
            [B].
        """
        if self.task == "regression":
            return squared_error(logits, targets)
        if self.task == "multi_label_classification":
            return binary_cross_entropy(logits, targets.to(logits.dtype))
        if logits.ndim == 3:
            if self.shifts:
                logits, targets = logits[:, :-1], targets[:, 1:]
            return TokenCrossEntropy(self.smoothing)(logits, targets)
        return nn.functional.cross_entropy(
            logits, targets, reduction="none", label_smoothing=self.smoothing
        )


def _list(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
