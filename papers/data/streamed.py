"""Minibatches of a data set that stays where it is, read by worker processes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from papers.data.reader import Making, Reader, refuse_own_generators
from tutelage.data.order import Ask, batch_count, drawn, in_order, shuffled
from tutelage.errors import UsageError
from tutelage.types import Batch


@runtime_checkable
class Examples(Protocol):
    """N examples in map style, as a ``torch.utils.data.Dataset`` that has a length."""

    def __len__(self) -> int:
        """N."""
        ...

    def __getitem__(self, row: int, /) -> tuple[Any, Any]:
        """Inputs and target, each a tensor, an array or a number; all rows of one shape."""
        ...


@dataclass(frozen=True)
class Streamed:
    """The minibatches of N examples of which only those on their way are in memory.

    Order, batches and seeds are those of ``Batches`` with the same seed, whatever the number of
    worker processes. What is shown is decided where ``epoch`` is called, not by copies of the
    data set in the workers. Python's, NumPy's and torch's global generators start anew for
    each example from the seed, the epoch and its id, and so what ``examples`` draws from them
    does not depend on workers, on the place in an epoch, or on where a run was resumed.
    """

    examples: Examples
    size: int
    """examples in a batch"""
    seed: int
    """of every order, draw and augmentation"""
    device: torch.device
    """where the batches go; the workers make them on the CPU"""
    making: Making = field(default_factory=Making)
    """what a worker makes of the stacked inputs; by default nothing"""
    ids: Tensor | None = None
    """int64 [N]; if None, ``examples.ids`` where there are such, else the row numbers"""
    workers: int = 0
    """processes that read; 0: this one"""
    persistent: bool = False
    """whether the workers live on between epochs"""

    def __post_init__(self) -> None:
        """Check what can be checked without reading an example."""
        count = _count(self.examples)
        if not count:
            raise UsageError("there are no examples to draw batches from.")
        refuse_own_generators(self.examples)
        if self.size < 1:
            raise UsageError(f"the batch size is {self.size}; allowed: 1 and above.")
        if self.workers < 0:
            raise UsageError(f"workers is {self.workers}; allowed: 0 and above.")
        ids = self._ids
        if ids.dtype != torch.int64 or ids.shape != (count,):
            raise UsageError(
                f"ids are {ids.dtype} of shape {tuple(ids.shape)}; give torch.int64 of shape "
                f"[{count}], one for each example."
            )

    def __len__(self) -> int:
        return batch_count(len(self.examples), self.size)

    def epoch(
        self, number: int, start: int = 0, *, rows: Tensor | None = None
    ) -> Iterator[Batch]:
        """Every example once, in an order of this epoch's own."""
        count = len(self.examples)
        if rows is None:
            rows = torch.arange(count)
        elif rows.dtype != torch.int64 or rows.ndim != 1 or not len(rows):
            raise UsageError(
                f"rows are {rows.dtype} of shape {tuple(rows.shape)}; give torch.int64 [M], at "
                "least one."
            )
        elif not 0 <= int(rows.min()) <= int(rows.max()) < count:
            raise UsageError(
                f"rows are {int(rows.min())}..{int(rows.max())}; allowed: 0..{count - 1}."
            )
        asks = shuffled(rows.cpu(), self.size, self.seed, number)
        yield from self._read(islice(asks, start, None))

    def draw(self, number: int) -> Batch:
        """A batch drawn uniformly, without the same example twice; read by this process."""
        ask = drawn(len(self.examples), self.size, self.seed, number)
        found = self._reader[ask]
        if isinstance(found, Batch):
            return self._here(found)
        raise found

    def whole(self, size: int) -> Iterator[Batch]:
        """Every example once, in the order of the set and never augmented."""
        asks = in_order(len(self.examples), size, self.seed)
        yield from self._read(asks)

    @property
    def _ids(self) -> Tensor:
        own = getattr(self.examples, "ids", None) if self.ids is None else self.ids
        return own if isinstance(own, Tensor) else torch.arange(len(self.examples))

    @cached_property
    def _reader(self) -> Reader:
        return Reader(self.examples, self._ids, self.making)

    @cached_property
    def _loader(self) -> DataLoader[Batch | UsageError]:
        return DataLoader(
            self._reader,
            batch_size=None,  # the reader makes batches
            sampler=_Asked(),
            collate_fn=_as_it_is,
            num_workers=self.workers,
            persistent_workers=self.persistent and self.workers > 0,
            pin_memory=self.device.type == "cuda",
            generator=torch.Generator(),  # so that no number is drawn from torch's own
        )

    def _read(self, asks: Iterable[Ask]) -> Iterator[Batch]:
        asked = self._loader.sampler
        assert isinstance(asked, _Asked)
        asked.asks, wrong = asks, None
        for found in self._loader:
            if isinstance(found, UsageError):
                wrong = found
                break
            if asked.asks is not asks and self.persistent:
                raise RuntimeError(
                    "another epoch was begun on the same persistent workers: finish one before "
                    "the other, or leave persistent away."
                )
            yield self._here(found)
        if wrong is not None:  # raised when the workers are gone: torch waits for them at exit
            self.__dict__.pop("_loader")
            raise wrong

    def _here(self, found: Batch) -> Batch:
        inputs, targets, ids = (part.to(self.device, non_blocking=True) for part in found[:3])
        return Batch(inputs, targets, ids, found.seed)


class _Asked(Sampler[Ask]):
    """Hands on what was asked for; it lives in the process that asks."""

    def __init__(self) -> None:
        self.asks: Iterable[Ask] = ()

    def __iter__(self) -> Iterator[Ask]:
        return iter(self.asks)


def _as_it_is(found: Any) -> Any:
    return found


def _count(examples: Examples) -> int:
    try:
        return len(examples)
    except TypeError as error:
        raise UsageError(
            f"{type(examples).__name__} has no length: give a map-style data set, with "
            "__len__ and __getitem__."
        ) from error
