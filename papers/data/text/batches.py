"""Minibatches of sentence pairs of like length, and the same again on request."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from papers.data.text.pairs import EncodedPairs
from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage.types import Batch
from tutelage_cli.data.text.vocabulary import IGNORED, PAD, START

_ORDER, _DRAW, _WHOLE = 1, 2, 3
_POOL = 20  # batches among whose pairs those of like length are put together


@dataclass(frozen=True)
class PairBatches:
    """The minibatches of N encoded pairs.

    ``inputs`` [B, 2, L] int64 are the source and what the decoder is given (``START`` and the
    target but its last token), padded with ``PAD``; ``targets`` [B, L] are the target's tokens,
    padded with ``IGNORED``. L is the longest side of the batch.
    """

    pairs: EncodedPairs
    size: int  # pairs in a batch
    seed: int  # of every order and draw
    device: torch.device

    def __post_init__(self) -> None:
        if not len(self.pairs):
            raise UsageError(f"{self.pairs.name} has no pairs left to draw batches from.")
        if self.size < 1:
            raise UsageError(f"the batch size is {self.size}; allowed: 1 and above.")

    def __len__(self) -> int:
        return -(-len(self.pairs) // self.size)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Every pair once, with others of like length, in an order of this epoch's own."""
        seed = mixed_seed(_ORDER, self.seed, number)
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(self.pairs), generator=generator)
        pools = [sorted(pool, key=self._length) for pool in _cut(order.tolist(), self._pool)]
        rows = [batch for pool in pools for batch in _cut(pool, self.size)]
        for place in torch.randperm(len(rows), generator=generator).tolist()[start:]:
            yield self._batch(rows[place], mixed_seed(seed, place))

    def draw(self, number: int) -> Batch:
        """A batch drawn uniformly, without the same pair twice."""
        seed = mixed_seed(_DRAW, self.seed, number)
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(self.pairs), generator=generator)
        return self._batch(order[: self.size].tolist(), seed)

    def whole(self, size: int) -> Iterator[Batch]:
        """Every pair once, from the shortest to the longest."""
        rows = sorted(range(len(self.pairs)), key=self._length)
        for place, batch in enumerate(_cut(rows, size)):
            yield self._batch(batch, mixed_seed(_WHOLE, self.seed, place))

    @property
    def _pool(self) -> int:
        return _POOL * self.size

    def _length(self, row: int) -> int:
        return max(len(self.pairs.sources[row]), len(self.pairs.targets[row]))

    def _batch(self, rows: Sequence[int], seed: int) -> Batch:
        sources = [self.pairs.sources[row] for row in rows]
        targets = [self.pairs.targets[row] for row in rows]
        given = [[START, *tokens[:-1]] for tokens in targets]
        length = max(self._length(row) for row in rows)
        inputs = torch.stack([_padded(side, length, PAD) for side in (sources, given)], 1)
        answers, ids = _padded(targets, length, IGNORED), self.pairs.ids[torch.tensor(rows)]
        on = self.device
        return Batch(inputs.to(on), answers.to(on), ids.to(on), seed)


def _padded(side: Sequence[Sequence[int]], length: int, filler: int) -> Tensor:
    return torch.tensor([[*tokens, *[filler] * (length - len(tokens))] for tokens in side])


def _cut(rows: Sequence[int], size: int) -> list[Sequence[int]]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


_ORDER, _WHOLE = 1, 2


@dataclass(frozen=True)
class TextBatches:
    """The minibatches of N texts; ``inputs`` are int64 [B, 3, L], see ``Tokens``."""

    inputs: Tensor  # int32 [N, 3, L]
    labels: Tensor  # [N], or soft ones [N, C]
    ids: Tensor  # int64 [N]
    size: int  # texts in a batch
    seed: int  # of every order
    device: torch.device

    def __post_init__(self) -> None:
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
