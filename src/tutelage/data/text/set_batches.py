"""Minibatches of a set of texts, in the orders that images come in."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch

from tutelage.data.order import Ask, batch_count, drawn, in_order, shuffled
from tutelage.data.text.text_set import TextSet
from tutelage.errors import UsageError
from tutelage.records import Batch


@dataclass(frozen=True)
class SetBatches:
    """The minibatches of N texts; ``inputs`` are int64 [B, 3, L], L that of the longest in it.

    Raises:
        UsageError: If there are no texts, or the size is below 1.
    """

    texts: TextSet
    size: int
    """texts in a batch"""
    seed: int
    """of every order and draw"""
    device: torch.device
    """where the batches go"""

    def __post_init__(self) -> None:
        """Check that there is at least one batch.

        Raises:
            UsageError: See the class.
        """
        if not len(self.texts):
            raise UsageError(f"{self.texts.name} has no texts left to draw batches from.")
        if self.size < 1:
            raise UsageError(f"the batch size is {self.size}; allowed: 1 and above.")

    def __len__(self) -> int:
        return batch_count(len(self.texts), self.size)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Every text once, in an order of this epoch's own.

        Args:
            number: The epoch, from 0; the same one gives the same batches again.
            start: The batch to begin with; those before it are skipped.

        Yields:
            Batches ``start``..``len(self) - 1``.
        """
        every = torch.arange(len(self.texts))
        asks = shuffled(every, self.size, self.seed, number)
        yield from map(self._batch, islice(asks, start, None))

    def draw(self, number: int) -> Batch:
        """A batch drawn uniformly, without the same text twice.

        Args:
            number: Which draw; the same one gives the same batch again.

        Returns:
            min(size, N) texts.
        """
        return self._batch(drawn(len(self.texts), self.size, self.seed, number))

    def whole(self, size: int) -> Iterator[Batch]:
        """Every text once, in the order of the set.

        Args:
            size: Texts in a batch.

        Yields:
            The batches; a last one of a single text is merged into the one before it.
        """
        yield from map(self._batch, in_order(len(self.texts), size, self.seed))

    def _batch(self, ask: Ask) -> Batch:
        tokens = self.texts.tokens[ask.rows].long()
        longest = max(1, int(tokens[:, 2].sum(1).max()))
        labels, ids = self.texts.labels[ask.rows], self.texts.ids[ask.rows]
        columns = tokens[:, :, :longest], labels, ids
        inputs, targets, ids = (column.to(self.device) for column in columns)
        return Batch(inputs, targets, ids, ask.seed)
