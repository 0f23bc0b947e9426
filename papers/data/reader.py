"""One batch of examples, read and stacked the same way in whichever process."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from tutelage.data.order import Ask
from tutelage.errors import UsageError
from tutelage.randomness import each_from, mixed_seed
from tutelage.types import Batch
from tutelage_cli.data.batches import normalised

OWN = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)
"""what draws numbers and is copied, with its state, into every worker"""
READ = (Tensor, np.ndarray, np.generic, int, float, list)
"""what inputs and targets may be"""


@dataclass(frozen=True)
class Making:
    """What becomes of the stacked inputs of a batch, in the order of the fields."""

    augment: Callable[[Tensor, int], Tensor] | None = None
    """from inputs [B, ...] and the batch's seed; None to leave them as they are"""
    mean: Tensor | None = None
    """[C], in 0..1: uint8 inputs become ``(x/255 - mean)/std``; None to leave them"""
    std: Tensor | None = None
    """[C], in 0..1"""

    def __post_init__(self) -> None:
        """Check that mean and deviation come together."""
        if (self.mean is None) != (self.std is None):
            raise UsageError("give mean and std together, or neither.")

    def __call__(self, inputs: Tensor, seed: int, *, plain: bool) -> Tensor:
        """Augment and normalise."""
        if self.augment is not None and not plain:
            inputs = self.augment(inputs, seed)
        if self.mean is None or self.std is None:
            return inputs
        if inputs.dtype != torch.uint8:
            raise UsageError(
                f"inputs are {inputs.dtype}, but mean and std are for torch.uint8: leave these "
                "away, or give bytes."
            )
        return normalised(inputs, self.mean, self.std)


@dataclass(frozen=True)
class Reader(Dataset[Batch | UsageError]):
    """What a worker process holds: it makes a ``Batch`` of what it is asked for."""

    examples: Any
    ids: Tensor
    """int64 [N]"""
    making: Making

    def __getitem__(self, ask: Ask) -> Batch | UsageError:
        """Read a batch; torch's loader hands on what its sampler yields."""
        ids = self.ids[ask.rows]
        pairs = []
        try:
            with each_from() as draw_from:
                for row, own in zip(ask.rows.tolist(), ids.tolist(), strict=True):
                    draw_from(mixed_seed(ask.world, own))
                    pairs.append(_pair(self.examples[row], own))
            inputs, targets = (
                _stacked([pair[place] for pair in pairs], what, ids)
                for place, what in enumerate(("inputs", "target"))
            )
            made = self.making(inputs, ask.seed, plain=ask.plain)
        except UsageError as error:
            return error
        return Batch(made, targets, ids, ask.seed)


def refuse_own_generators(examples: object) -> None:
    """Refuse a data set with a generator of its own, of which every worker gets a copy."""
    for name, value in getattr(examples, "__dict__", {}).items():
        if isinstance(value, OWN):
            raise UsageError(
                f"{type(examples).__name__}.{name} is a {type(value).__name__}: every worker "
                "would draw the same from its copy, and again in each epoch. Make one inside "
                "__getitem__, from torch.initial_seed(), which is another there for each "
                "example and epoch."
            )


def _pair(found: Any, own: int) -> tuple[Any, Any]:
    if not isinstance(found, tuple) or len(found) != 2:
        raise UsageError(
            f"example {own} is a {type(found).__name__}; give a tuple of inputs and target."
        )
    for what, value in zip(("inputs", "target"), found, strict=True):
        if not isinstance(value, READ):
            raise UsageError(
                f"{what} of example {own} are a {type(value).__name__}; give a tensor, an "
                "array or a number."
            )
    return found


def _stacked(values: Sequence[Any], what: str, ids: Tensor) -> Tensor:
    tensors = [torch.as_tensor(value) for value in values]
    for place, tensor in enumerate(tensors):
        if tensor.shape != tensors[0].shape or tensor.dtype != tensors[0].dtype:
            raise UsageError(
                f"{what} of example {int(ids[0])} are {_kind(tensors[0])}, those of example "
                f"{int(ids[place])} {_kind(tensor)}: bring all to one shape and type."
            )
    return torch.stack(tensors)


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}"
