"""Minibatches of a data set that stays where it is, read by worker processes."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from tutelage.data.order import BatchRequest, batch_count, in_order, random_rows, shuffled
from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed, seeded_generators
from tutelage.types import Batch
from tutelage_cli.data.batches import normalised

OWN = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)
"""what draws numbers and is copied, with its state, into every worker"""
READ = (Tensor, np.ndarray, np.generic, int, float, list)
"""what inputs and targets may be"""


@dataclass(frozen=True)
class BatchTransform:
    """What becomes of the stacked inputs of a batch, in the order of the fields."""

    augment: Callable[[Tensor, int], Tensor] | None = None
    """from inputs [B, ...] and the batch's seed; None to leave them as they are"""
    mean: Tensor | None = None
    """[C], in 0..1: uint8 inputs become ``(x/255 - mean)/std``; None to leave them"""
    std: Tensor | None = None
    """[C], in 0..1"""

    def __post_init__(self) -> None:
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
    """What a worker process holds: it makes a ``Batch`` of what is requested."""

    examples: Any
    ids: Tensor
    """int64 [N]"""
    transform: BatchTransform

    def __getitem__(self, request: BatchRequest) -> Batch | UsageError:
        """Read a batch; torch's loader hands on what its sampler yields."""
        ids = self.ids[request.rows]
        pairs = []
        try:
            with seeded_generators() as draw_from:
                for row, own in zip(request.rows.tolist(), ids.tolist(), strict=True):
                    draw_from(mixed_seed(request.world, own))
                    pairs.append(_pair(self.examples[row], own))
            inputs = _stacked([pair[0] for pair in pairs], "inputs", ids)
            targets = _stacked([pair[1] for pair in pairs], "target", ids)
            made = self.transform(inputs, request.seed, plain=request.plain)
        except UsageError as error:
            return error
        return Batch(made, targets, ids, request.seed)


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
    transform: BatchTransform = field(default_factory=BatchTransform)
    """what a worker makes of the stacked inputs; by default nothing"""
    ids: Tensor | None = None
    """int64 [N]; if None, ``examples.ids`` where there are such, else the row numbers"""
    workers: int = 0
    """processes that read; 0: this one"""
    persistent: bool = False
    """whether the workers live on between epochs"""

    def __post_init__(self) -> None:
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
        requests = shuffled(rows.cpu(), self.size, self.seed, number)
        yield from self._read(islice(requests, start, None))

    def draw(self, number: int) -> Batch:
        """A batch drawn uniformly, without the same example twice; read by this process."""
        request = random_rows(len(self.examples), self.size, self.seed, number)
        found = self._reader[request]
        if isinstance(found, Batch):
            return self._here(found)
        raise found

    def whole(self, size: int) -> Iterator[Batch]:
        """Every example once, in the order of the set and never augmented."""
        requests = in_order(len(self.examples), size, self.seed)
        yield from self._read(requests)

    @property
    def _ids(self) -> Tensor:
        own = getattr(self.examples, "ids", None) if self.ids is None else self.ids
        return own if isinstance(own, Tensor) else torch.arange(len(self.examples))

    @cached_property
    def _reader(self) -> Reader:
        return Reader(self.examples, self._ids, self.transform)

    @cached_property
    def _loader(self) -> DataLoader[Batch | UsageError]:
        return DataLoader(
            self._reader,
            batch_size=None,  # the reader makes batches
            sampler=_RequestSampler(),
            collate_fn=_as_it_is,
            num_workers=self.workers,
            persistent_workers=self.persistent and self.workers > 0,
            pin_memory=self.device.type == "cuda",
            generator=torch.Generator(),  # so that no number is drawn from torch's own
        )

    def _read(self, requests: Iterable[BatchRequest]) -> Iterator[Batch]:
        sampler = self._loader.sampler
        assert isinstance(sampler, _RequestSampler)
        sampler.requests, wrong = requests, None
        for found in self._loader:
            if isinstance(found, UsageError):
                wrong = found
                break
            if sampler.requests is not requests and self.persistent:
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


class _RequestSampler(Sampler[BatchRequest]):
    """Yields what was requested; it lives in the process that reads the batches."""

    def __init__(self) -> None:
        self.requests: Iterable[BatchRequest] = ()

    def __iter__(self) -> Iterator[BatchRequest]:
        return iter(self.requests)


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
