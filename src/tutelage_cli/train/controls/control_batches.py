"""Batches of controls: of other examples, under other targets, over and over again."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tutelage.data.order import BatchRequest
from tutelage.types import Batch
from tutelage_cli.data.batches import Batches, SeededBatches, Set
from tutelage_cli.train.plan import BatchSource


def batches_like(like: Batches[Set], examples: Set) -> Batches[Set]:
    """Training batches of other examples; a single one comes twice in its batch."""
    if len(examples) == 1:
        examples = examples.rows(torch.zeros(2, dtype=torch.long))
    return replace(like, examples=examples)


@dataclass(frozen=True)
class RelabelledBatches(SeededBatches):
    """Batches under other targets."""

    inner: SeededBatches
    targets: Tensor
    """[N] or [N, C], in the order of the examples"""

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Examples in a batch."""
        return self.inner.size

    @property
    def seed(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of every order and draw."""
        return self.inner.seed

    @property
    def count(self) -> int:
        """N."""
        return self.inner.count

    def batch(self, request: BatchRequest) -> Batch:
        """One batch."""
        unchanged = self.inner.batch(request)
        return unchanged._replace(
            targets=self.targets[request.rows].to(unchanged.targets.device)
        )


@dataclass(frozen=True)
class RepeatedBatches:
    """Batches over and over again, in epochs of another length: a budget of student steps."""

    inner: BatchSource
    length: int
    """batches in an epoch"""

    def __len__(self) -> int:
        return self.length

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch; the examples are shuffled anew when all have been seen."""
        place, end = number * self.length + start, (number + 1) * self.length
        while place < end:
            whole, within = divmod(place, len(self.inner))
            for batch in self.inner.epoch(whole, within):
                if place == end:
                    return
                yield batch
                place += 1
