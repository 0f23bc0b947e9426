"""Minibatches of tokenised, labelled texts, and the same again on request."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage.types import Batch

_ORDER, _WHOLE = 1, 2


@dataclass(frozen=True)
class TextBatches:
    """The minibatches of N texts; ``inputs`` are int64 [B, 3, L], see ``Tokens``."""

    inputs: Tensor
    """int32 [N, 3, L]"""
    labels: Tensor
    """[N], or soft ones [N, C]"""
    ids: Tensor
    """int64 [N]"""
    size: int
    """texts in a batch"""
    seed: int
    """of every order"""
    device: torch.device

    def __post_init__(self) -> None:
        """Check that there is at least one batch."""
        if not len(self.ids):
            raise UsageError("there are no texts to draw batches from.")
        if self.size < 1:
            raise UsageError(f"the batch size is {self.size}; allowed: 1 and above.")

    def __len__(self) -> int:
        return -(-len(self.ids) // self.size)

    def epoch(self, number: int) -> Iterator[Batch]:
        """Every text once, in an order of this epoch's own."""
        seed = mixed_seed(_ORDER, self.seed, number)
        order = torch.randperm(len(self.ids), generator=torch.Generator().manual_seed(seed))
        for place, rows in enumerate(order.split(self.size)):
            yield self._batch(rows, mixed_seed(seed, place))

    def whole(self, size: int) -> Iterator[Batch]:
        """Every text once, from the shortest to the longest."""
        order = self.inputs[:, 2].sum(1).argsort(stable=True)
        for place, rows in enumerate(order.split(size)):
            yield self._batch(rows, mixed_seed(_WHOLE, self.seed, place))

    def _batch(self, rows: Tensor, seed: int) -> Batch:
        columns = self.inputs[rows].long(), self.labels[rows], self.ids[rows]
        inputs, labels, ids = (column.to(self.device) for column in columns)
        return Batch(inputs, labels, ids, seed)
