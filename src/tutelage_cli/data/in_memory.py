"""Minibatches of examples in memory: in which orders they come, whatever they are."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from tutelage.data.order import BatchRequest, batch_count, in_order, random_rows, shuffled
from tutelage.errors import UsageError
from tutelage.types import Batch
from tutelage_cli.data.labelled import Labelled


class InMemory(ABC):
    """The minibatches of N examples, the same again for the same seed."""

    size: int
    """examples in a batch"""
    seed: int
    """of every order and draw"""

    @property
    @abstractmethod
    def count(self) -> int:
        """N."""

    @abstractmethod
    def batch(self, request: BatchRequest) -> Batch:
        """One batch."""

    def __len__(self) -> int:
        return batch_count(self.count, self.size)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Every example once, in an order of this epoch's own."""
        requests = shuffled(torch.arange(self.count), self.size, self.seed, number)
        yield from map(self.batch, islice(requests, start, None))

    def draw(self, number: int) -> Batch:
        """A batch drawn uniformly, without the same example twice."""
        return self.batch(random_rows(self.count, self.size, self.seed, number))

    def whole(self, size: int) -> Iterator[Batch]:
        """Every example once, in the order of the set and never augmented."""
        yield from map(self.batch, in_order(self.count, size, self.seed))


class OfSet(InMemory):
    """The minibatches of a set of examples."""

    device: torch.device
    """where the batches go"""

    @property
    @abstractmethod
    def examples(self) -> Labelled:
        """The set."""

    @abstractmethod
    def inputs(self, request: BatchRequest) -> Tensor:
        """The inputs of one batch."""

    def __post_init__(self) -> None:
        """Check that there is at least one batch."""
        if not self.count:
            of = self.examples
            raise UsageError(f"{of.name} has no {of.example}s left to draw batches from.")
        if self.size < 1:
            raise UsageError(f"the batch size is {self.size}; allowed: 1 and above.")

    @property
    def count(self) -> int:
        """N."""
        return len(self.examples)

    def batch(self, request: BatchRequest) -> Batch:
        """One batch."""
        of, on, rows = self.examples, self.device, request.rows
        labels, ids = of.labels[rows].to(on), of.ids[rows].to(on)
        return Batch(self.inputs(request).to(on), labels, ids, request.seed)
