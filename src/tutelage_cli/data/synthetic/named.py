"""The made data sets that have names; their parts are made from disjoint pools of images."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch

from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage_cli.data.images import Described, ImageSet, ThreeParts
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.local import load_known
from tutelage_cli.data.resize import Size, covering
from tutelage_cli.data.synthetic.coloured_digits import coloured_digits
from tutelage_cli.data.synthetic.compositing import (
    discs,
    drawn_mapping,
    ink,
    on_backgrounds,
    rolled,
    scattered,
)
from tutelage_cli.data.synthetic.rotated_ones import (
    OVERLAPPING,
    SEPARATE,
    Degrees,
    rotated_ones,
)

_SPLIT_SEED, _DRAW_SEED = 1, 2
"""first part of a seed: keeps the streams of random numbers apart"""


Maker = Callable[[ImageSet, int, int], Described]
"""from a pool, a number of images and a seed to that many images"""
SIDE = 56
"""pixels, of coloured MNIST in the paper"""
DIGIT_SIDE = 28
"""pixels, of a digit on a background of 32"""
OBJECT_SIDE = 20
"""pixels, of an object on a background of 32"""
BACKGROUND_SIDE = 32
MAPPING_SEED = 42
"""of the category of each class; the same for every seed of the rest"""
_SEED = 0


class Sizes(NamedTuple):
    """Images to make for each part."""

    train: int
    held_out: int
    test: int


SIZES = Sizes(10_000, 5_000, 5_000)
"""the paper's for rotated MNIST; taken for all"""


class Pools(NamedTuple):
    """Where the images of each part are made from."""

    train: ImageSet
    held_out: ImageSet
    test: ImageSet


def disjoint_pools(data: Splits[ImageSet], *, seed: int) -> Pools:
    """The training split cut at random into halves, and the test split."""
    count = len(data.train)
    if count < 2:
        raise UsageError(
            f"{data.train.name} has {count} training images to cut into halves; give 2 or more."
        )
    generator = torch.Generator().manual_seed(mixed_seed(_SPLIT_SEED, seed))
    order = torch.randperm(count, generator=generator)
    first, second = order[: count // 2], order[count // 2 :]
    parts = data.train.rows(first), data.train.rows(second), data.test
    return Pools(*(part.in_memory() for part in parts))


def three_parts(make: Maker, pools: Pools, sizes: Sizes, *, seed: int) -> ThreeParts:
    """Every part, made from its own pool with random numbers of its own."""
    if min(sizes) < 1:
        raise UsageError(
            f"images to make are {tuple(sizes)} (train, held-out, test); allowed: 1 and above."
        )
    train, held_out, test = (
        make(pool, count, mixed_seed(_DRAW_SEED, seed, place))
        for place, (pool, count) in enumerate(zip(pools, sizes, strict=True))
    )
    return ThreeParts(
        train.with_ids_from(0), held_out.with_ids_from(len(train)), test.with_ids_from(0)
    )


def shifted_backgrounds(
    foregrounds: ThreeParts, backgrounds: Pools, *, mapping_seed: int, seed: int
) -> ThreeParts:
    """Objects on the backgrounds of their class; at the test, on those of the class before.

    Train and held-out part share one mapping from classes to categories; at the test it is
    rolled by one, so that the background speaks for another class.

    Source: Raghu et al., 2021, "Teaching with Commentaries", section 5.2; Koh et al., 2020.
    """
    classes = len(foregrounds.train.images.classes)
    categories = len(backgrounds.train.classes)
    mapping = drawn_mapping(classes, categories, seed=mapping_seed)
    mappings = (mapping, mapping, rolled(mapping))
    return ThreeParts(
        *(
            on_backgrounds(front, behind, known, seed=mixed_seed(seed, place))
            for place, (front, behind, known) in enumerate(
                zip(foregrounds, backgrounds, mappings, strict=True)
            )
        )
    )


def rotated_parts(degrees: Degrees, sizes: Sizes, *, seed: int) -> ThreeParts:
    """Rotated MNIST: train and held-out part from disjoint halves of the training digits."""
    pools = disjoint_pools(load_known("mnist"), seed=seed)

    def make(pool: ImageSet, count: int, draws: int) -> Described:
        return rotated_ones(pool, count, degrees=degrees, seed=draws)

    return three_parts(make, pools, sizes, seed=seed)


def coloured_parts(side: int, sizes: Sizes, *, seed: int) -> ThreeParts:
    """Coloured MNIST: train and held-out part from disjoint halves of the training digits."""
    pools = disjoint_pools(load_known("mnist"), seed=seed)

    def make(pool: ImageSet, count: int, draws: int) -> Described:
        return coloured_digits(pool, count, side=side, seed=draws)

    return three_parts(make, pools, sizes, seed=seed)


def digit_parts(sizes: Sizes, *, seed: int, side: int = DIGIT_SIDE) -> ThreeParts:
    """White digits at random places of CIFAR-100 images of the category of their class."""

    def make(pool: ImageSet, count: int, draws: int) -> Described:
        digits = _brought_to(side, _some(pool, count, draws))
        return scattered(ink(digits), side=BACKGROUND_SIDE, seed=draws)

    return _on_cifar100("mnist", make, sizes, seed)


def object_parts(sizes: Sizes, *, seed: int) -> ThreeParts:
    """Round CIFAR-10 images of 20 pixels at random places of CIFAR-100 images."""

    def make(pool: ImageSet, count: int, draws: int) -> Described:
        objects = _brought_to(OBJECT_SIDE, _some(pool, count, draws))
        return scattered(discs(objects), side=BACKGROUND_SIDE, seed=draws)

    return _on_cifar100("cifar10", make, sizes, seed)


def _on_cifar100(name: str, make: Maker, sizes: Sizes, seed: int) -> ThreeParts:
    pools = disjoint_pools(load_known(name), seed=seed)
    backgrounds = disjoint_pools(load_known("cifar100"), seed=mixed_seed(seed, 1))
    return shifted_backgrounds(
        three_parts(make, pools, sizes, seed=seed),
        backgrounds,
        mapping_seed=MAPPING_SEED,
        seed=seed,
    )


def _brought_to(side: int, chosen: ImageSet) -> ImageSet:
    pixels = covering(chosen.images, Size(side, side))
    return replace(chosen, images=pixels)


def _some(pool: ImageSet, count: int, seed: int) -> ImageSet:
    # In random order; every image is taken before any is taken again.
    generator = torch.Generator().manual_seed(seed)
    rounds = -(-count // len(pool))
    orders = [torch.randperm(len(pool), generator=generator) for _ in range(rounds)]
    return pool.rows(torch.cat(orders)[:count])


SETS: Mapping[str, Callable[[], Splits[ImageSet]]] = {
    "rotated-mnist": lambda: rotated_parts(SEPARATE, SIZES, seed=_SEED).splits(),
    "rotated-mnist-overlapping": lambda: rotated_parts(OVERLAPPING, SIZES, seed=_SEED).splits(),
    "coloured-mnist": lambda: coloured_parts(SIDE, SIZES, seed=_SEED).splits(),
    "digits-on-backgrounds": lambda: digit_parts(SIZES, seed=_SEED).splits(),
    "objects-on-backgrounds": lambda: object_parts(SIZES, seed=_SEED).splits(),
}
"""the sets by name, as ``tutelage train`` takes them"""
