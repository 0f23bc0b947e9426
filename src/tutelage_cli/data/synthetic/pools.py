"""Three pools of source images of which no two share one, and three parts made from them."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage_cli.data.described import Described, ThreeParts
from tutelage_cli.data.images import ImageSet, Splits

_HALVES, _PART = 1, 2
"""first part of a seed: keeps the streams of random numbers apart"""


Maker = Callable[[ImageSet, int, int], Described]
"""from a pool, a number of images and a seed to that many images"""


class Sizes(NamedTuple):
    """Images to make for each part."""

    train: int
    held_out: int
    test: int


class Pools(NamedTuple):
    """Where the images of each part are made from."""

    train: ImageSet
    held_out: ImageSet
    test: ImageSet


def disjoint_pools(data: Splits, *, seed: int) -> Pools:
    """The training split cut at random into halves, and the test split."""
    count = len(data.train)
    if count < 2:
        raise UsageError(
            f"{data.train.name} has {count} training images to cut into halves; give 2 or more."
        )
    generator = torch.Generator().manual_seed(mixed_seed(_HALVES, seed))
    order = torch.randperm(count, generator=generator)
    first, second = order[: count // 2], order[count // 2 :]
    return Pools(data.train.rows(first), data.train.rows(second), data.test)


def three_parts(make: Maker, pools: Pools, sizes: Sizes, *, seed: int) -> ThreeParts:
    """Every part, made from its own pool with random numbers of its own."""
    if min(sizes) < 1:
        raise UsageError(
            f"images to make are {tuple(sizes)} (train, held-out, test); allowed: 1 and above."
        )
    train, held_out, test = (
        make(pool, count, mixed_seed(_PART, seed, place))
        for place, (pool, count) in enumerate(zip(pools, sizes, strict=True))
    )
    return ThreeParts(
        train.with_ids_from(0), held_out.with_ids_from(len(train)), test.with_ids_from(0)
    )
