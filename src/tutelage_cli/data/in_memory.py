"""Minibatches of examples in memory: in which orders they come, whatever they are."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice

import torch

from tutelage.data.order import BatchRequest, batch_count, in_order, random_rows, shuffled
from tutelage.types import Batch


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
