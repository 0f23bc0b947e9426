"""Data sets with example ids, and reproducible random batches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage.types import Batch


@runtime_checkable
class Indexed(Protocol):
    """A map-style data set, of torch or Hugging Face."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> Any: ...


class WithIds(Dataset[tuple[Any, ...]]):
    """A data set whose examples end with their own index.

    A ``DataLoader`` of it gives inputs, targets and ids, as ``as_batch`` takes them.

    Args:
        examples: Each of them a sequence: input and target.
    """

    def __init__(self, examples: Indexed) -> None:
        self.examples = examples

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, place: int) -> tuple[Any, ...]:
        return (*self.examples[place], place)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return (self[place] for place in range(len(self)))


@dataclass(frozen=True)
class RandomBatches:
    """Random batches by number, without repetition within a batch, such as held-out batches.

    A batch depends on its number and the seed alone, so that resumed training sees the same.

    Raises:
        UsageError: If there are no examples, or the size is below 1.
    """

    examples: Indexed
    size: int
    """examples in a batch; all of them where there are fewer"""
    seed: int = 0
    collate: Callable[[list[Any]], Any] = default_collate
    """from a list of examples to a batch, as a loader's ``collate_fn``"""

    def __post_init__(self) -> None:
        if not len(self.examples):
            raise UsageError("There are no examples to draw batches from.")
        if self.size < 1:
            raise UsageError(f"size must be 1 or above, got {self.size}.")

    def __call__(self, number: int) -> Any:
        """Draw the batch of a number, collated: of pairs a list, which is no ``tl.Batch``."""
        generator = torch.Generator().manual_seed(mixed_seed(self.seed, number))
        places = torch.randperm(len(self.examples), generator=generator)[: self.size]
        return self.collate([self.examples[place] for place in places.tolist()])


def as_batch(loaded: Batch | Sequence[Tensor]) -> Batch:
    """Convert the output of a loader to a batch.

    Args:
        loaded: Inputs, targets and ids; or a batch already.

    Returns:
        The batch.

    Raises:
        UsageError: If there are no ids, or something else came.
    """
    if isinstance(loaded, Batch):
        return loaded
    if isinstance(loaded, list | tuple) and len(loaded) == 3:
        inputs, targets, ids = loaded
        return Batch(inputs, targets, ids)
    if isinstance(loaded, list | tuple) and len(loaded) == 2:
        raise UsageError(
            "The loader gives inputs and targets but no ids, by which a teacher identifies "
            "examples: load from tl.data.WithIds(examples)."
        )
    what = f"{len(loaded)} parts" if isinstance(loaded, list | tuple) else type(loaded).__name__
    raise UsageError(f"The loader gives {what}: make a Batch of inputs, targets and ids of it.")


def without_ids(loaded: Batch | Sequence[Tensor]) -> Batch:
    """Convert held-out examples to a batch; ids are -1 where none came.

    Args:
        loaded: Inputs and targets, or with ids; or a batch already.

    Returns:
        The batch, with ids -1 where none came.
    """
    if not isinstance(loaded, Batch) and len(loaded) == 2:
        inputs, targets = loaded
        none = torch.full((len(targets),), -1, device=getattr(targets, "device", None))
        return Batch(inputs, targets, none)  # where it is used, other things are refused
    return as_batch(loaded)
