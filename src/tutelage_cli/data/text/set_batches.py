"""Minibatches of a set of texts, in the orders that images come in."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tutelage.data.order import BatchRequest
from tutelage_cli.data.in_memory import OfSet
from tutelage_cli.data.text.text_set import TextSet


@dataclass(frozen=True)
class SetBatches(OfSet):
    """Minibatches of N texts; ``inputs`` are int64 [B, 3, L], L the longest length."""

    texts: TextSet
    size: int
    """texts in a batch"""
    seed: int
    """of every order and draw"""
    device: torch.device
    """where the batches go"""

    @property
    def examples(self) -> TextSet:
        """The texts."""
        return self.texts

    def inputs(self, request: BatchRequest) -> Tensor:
        """The inputs of one batch."""
        tokens = self.texts.tokens[request.rows].long()
        return tokens[:, :, : max(1, int(tokens[:, 2].sum(1).max()))]
