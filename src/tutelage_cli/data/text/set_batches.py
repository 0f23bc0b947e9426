"""Minibatches of a set of texts, in the orders that images come in."""

from dataclasses import dataclass

import torch

from tutelage.data.order import BatchRequest
from tutelage.types import Batch
from tutelage_cli.data.in_memory import InMemory
from tutelage_cli.data.text.text_set import TextSet


@dataclass(frozen=True)
class SetBatches(InMemory):
    """Minibatches of N texts; ``inputs`` are int64 [B, 3, L], L the longest length."""

    texts: TextSet
    size: int
    """texts in a batch"""
    seed: int
    """of every order and draw"""
    device: torch.device
    """where the batches go"""

    def __post_init__(self) -> None:
        """Check that there is at least one batch; see the class."""
        self.require_some(self.texts.name, "texts")

    @property
    def count(self) -> int:
        """N."""
        return len(self.texts)

    def batch(self, request: BatchRequest) -> Batch:
        """One batch."""
        tokens = self.texts.tokens[request.rows].long()
        longest = max(1, int(tokens[:, 2].sum(1).max()))
        labels, ids = self.texts.labels[request.rows], self.texts.ids[request.rows]
        columns = tokens[:, :, :longest], labels, ids
        inputs, targets, ids = (column.to(self.device) for column in columns)
        return Batch(inputs, targets, ids, request.seed)
