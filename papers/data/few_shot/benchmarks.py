"""The benchmarks of few-shot learning by name, each as three sets without a common class."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch

from tutelage.errors import require_known
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.local import load_known
from tutelage_cli.data.resize import Size, covering


class ClassParts(NamedTuple):
    """Three sets of images that have no class in common."""

    train: ImageSet
    held_out: ImageSet
    test: ImageSet


def only(images: ImageSet, names: Iterable[str]) -> ImageSet:
    """The images of some classes, which are numbered anew."""
    kept = tuple(names)
    for name in kept:
        require_known(f"{images.name} has no class", name, images.classes)
    numbers = torch.full((len(images.classes),), -1)
    numbers[[images.classes.index(name) for name in kept]] = torch.arange(len(kept))
    labels = numbers[images.labels]
    rows = (labels >= 0).nonzero().flatten()
    return replace(images.rows(rows), labels=labels[rows], classes=kept)


def those_with_images(images: ImageSet) -> tuple[str, ...]:
    """The classes that have images."""
    return tuple(images.classes[label] for label in images.labels.unique().tolist())


def train_and_test(splits: Splits[ImageSet]) -> ImageSet:
    """Train and test as one set."""
    train, test = splits.train, splits.test
    first = int(train.ids.max()) + 1 if len(train) else 0
    return replace(
        train,
        images=torch.cat([train.images, test.images]),
        labels=torch.cat([train.labels, test.labels]),
        ids=torch.cat([train.ids, torch.arange(first, first + len(test))]),
        sources=(),
    )


CHARACTER_SIDE = 28
"""pixels, to which characters are brought"""
_HELD_OUT_ALPHABET = "Latin/"
_TRAIN = """
    apple aquarium_fish bear bee bottle bowl boy bridge bus can castle caterpillar chair
    clock cloud cockroach couch cup dinosaur dolphin elephant forest girl hamster house
    kangaroo keyboard lawn_mower lion lizard lobster mountain mouse mushroom oak_tree orange
    orchid palm_tree pear pine_tree plate porcupine possum rabbit raccoon ray road seal
    shrew skunk skyscraper snake spider squirrel streetcar sunflower tank tiger train trout
    tulip turtle willow_tree wolf
"""
_HELD_OUT = """
    beaver beetle butterfly camel cattle crab crocodile flatfish lamp maple_tree motorcycle
    otter sea shark television tractor
"""
_TEST = """
    baby bed bicycle chimpanzee fox leopard man pickup_truck plain poppy rocket rose snail
    sweet_pepper table telephone wardrobe whale woman worm
"""

TRAIN, HELD_OUT, TEST = (tuple(names.split()) for names in (_TRAIN, _HELD_OUT, _TEST))
"""the classes of CIFAR-FS, as the code of Bertinetto et al. 2019, section 4.1, lists them"""


def few_shot(name: str) -> ClassParts:
    """A benchmark's three sets of classes.

    ``cifar-fs``: all images of CIFAR-100, 64 / 16 / 20 classes, 32x32. ``omniglot``: the
    characters of the local copy's train and test split, 28x28, of which the Latin alphabet is
    held out (a choice of ours: characters have no held-out part of their own).
    """
    require_known("unknown few-shot benchmark", name, BENCHMARKS)
    return BENCHMARKS[name]()


def _cifar_fs() -> ClassParts:
    whole = train_and_test(load_known("cifar100"))
    lists = (TRAIN, HELD_OUT, TEST)
    return ClassParts(*(only(whole, names) for names in lists))


def _omniglot() -> ClassParts:
    splits = load_known("omniglot")
    train, test = _small(splits.train), _small(splits.test)
    names = those_with_images(train)
    held_out = [name for name in names if name.startswith(_HELD_OUT_ALPHABET)]
    learned = [name for name in names if name not in held_out]
    return ClassParts(
        only(train, learned), only(train, held_out), only(test, those_with_images(test))
    )


def _small(images: ImageSet) -> ImageSet:
    size = Size(CHARACTER_SIDE, CHARACTER_SIDE)
    return replace(images, images=covering(images.in_memory().images, size))


BENCHMARKS: Mapping[str, Callable[[], ClassParts]] = {
    "cifar-fs": _cifar_fs,
    "omniglot": _omniglot,
}
