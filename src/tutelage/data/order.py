"""The order of examples and their batches, by seed."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from tutelage.randomness import mixed_seed

_ORDER, _EPOCH, _DRAW, _WHOLE = 1, 2, 3, 4
"""first part of a seed: keeps the streams of random numbers apart"""


class BatchRequest(NamedTuple):
    """The rows, seeds and augmentation of one batch."""

    rows: Tensor
    """int64 [B]: places in the data set"""
    seed: int
    """the batch's own"""
    world: int
    """what each example's own draws start from, whichever batch it is in"""
    plain: bool = False
    """whether augmentation is left away"""


def shuffled(
    rows: Int64[Tensor, "N"], size: int, seed: int, number: int
) -> Iterator[BatchRequest]:
    """Batches of all rows in the random order of an epoch."""
    world = mixed_seed(_ORDER, seed, number)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(world))
    for place, span in enumerate(_spans(len(rows), size)):
        yield BatchRequest(rows[order[span]], mixed_seed(_EPOCH, seed, number, place), world)


def random_rows(count: int, size: int, seed: int, number: int) -> BatchRequest:
    """A batch of random rows, without repetition."""
    own = mixed_seed(_DRAW, seed, number)
    world = mixed_seed(_ORDER, own)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(world))
    return BatchRequest(order[:size], own, world)


def in_order(count: int, size: int, seed: int) -> Iterator[BatchRequest]:
    """Batches of all rows in order, without augmentation."""
    for place, span in enumerate(_spans(count, size)):
        rows = torch.arange(span.start, span.stop)
        yield BatchRequest(
            rows, mixed_seed(_WHOLE, seed, place), mixed_seed(_WHOLE, seed), plain=True
        )


def batch_count(count: int, size: int) -> int:
    """The number of batches of an epoch."""
    return len(_spans(count, size))


def _spans(count: int, size: int) -> list[slice]:
    spans = [slice(start, min(start + size, count)) for start in range(0, count, size)]
    if len(spans) > 1 and size > 1 and count % size == 1:
        spans[-2:] = [slice(spans[-2].start, count)]
    return spans
