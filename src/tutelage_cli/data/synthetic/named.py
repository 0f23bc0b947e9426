"""The made data sets that have names: the paper's, and small stand-ins for its large ones."""

from dataclasses import replace

import torch

from tutelage.randomness import mixed_seed
from tutelage_cli.data.described import Described, ThreeParts
from tutelage_cli.data.images import ImageSet, Splits
from tutelage_cli.data.local import load_known
from tutelage_cli.data.resize import Size, covering
from tutelage_cli.data.synthetic.coloured_digits import coloured_digits
from tutelage_cli.data.synthetic.foregrounds import discs, ink, scattered
from tutelage_cli.data.synthetic.pools import Maker, Sizes, disjoint_pools, three_parts
from tutelage_cli.data.synthetic.rotated_ones import (
    OVERLAPPING,
    SEPARATE,
    Degrees,
    rotated_ones,
)
from tutelage_cli.data.synthetic.shifted import shifted_backgrounds

SIZES = Sizes(10_000, 5_000, 5_000)
"""the paper's for rotated MNIST; taken for all"""
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


def rotated_mnist() -> Splits:
    """Ones turned by 15 to 45 degrees to one side or the other."""
    return rotated_parts(SEPARATE, SIZES, seed=_SEED).splits()


def rotated_mnist_overlapping() -> Splits:
    """Ones turned by -5 to 30 degrees to one side or the other."""
    return rotated_parts(OVERLAPPING, SIZES, seed=_SEED).splits()


def coloured_mnist() -> Splits:
    """A red digit, which is the label, and a blue one in two quadrants of 56x56 pixels."""
    return coloured_parts(SIDE, SIZES, seed=_SEED).splits()


def digits_on_backgrounds() -> Splits:
    """White digits on CIFAR-100 images that give the digit away, and mislead in the test."""
    return digit_parts(SIZES, seed=_SEED).splits()


def objects_on_backgrounds() -> Splits:
    """Small CIFAR-10 images on CIFAR-100 ones that give them away, and mislead in the test."""
    return object_parts(SIZES, seed=_SEED).splits()


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
