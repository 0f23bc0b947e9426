"""Image sets cut by class, so that no class is in two parts."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from tutelage.errors import UsageError, nearest
from tutelage_cli.data.images import ImageSet, Splits


class ClassParts(NamedTuple):
    """Three sets of images that have no class in common."""

    train: ImageSet
    held_out: ImageSet
    test: ImageSet


def only(images: ImageSet, names: Iterable[str]) -> ImageSet:
    """The images of some classes, which are numbered anew."""
    kept = tuple(names)
    for name in kept:
        if name not in images.classes:
            raise UsageError(
                f"{images.name} has no class '{name}'. {nearest(name, images.classes)}"
            )
    numbers = torch.full((len(images.classes),), -1)
    numbers[[images.classes.index(name) for name in kept]] = torch.arange(len(kept))
    labels = numbers[images.labels]
    rows = (labels >= 0).nonzero().flatten()
    return replace(images.rows(rows), labels=labels[rows], classes=kept)


def those_with_images(images: ImageSet) -> tuple[str, ...]:
    """The classes that have images."""
    return tuple(images.classes[label] for label in images.labels.unique().tolist())


def joined(splits: Splits) -> ImageSet:
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


def with_quarter_turns(images: ImageSet) -> ImageSet:
    """Every class four times: as it is, and turned by 90, 180 and 270 degrees.

    Source: Santoro et al., 2016, "Meta-learning with memory-augmented neural networks",
        section 4.1, for characters.
    """
    height, width = images.images.shape[-2:]
    if height != width:
        raise UsageError(
            f"{images.name} has images of {width}x{height} pixels (width x height); allowed: "
            "square ones."
        )
    turns = range(4)
    return replace(
        images,
        images=torch.cat([images.images.rot90(turn, (2, 3)) for turn in turns]),
        labels=torch.cat([images.labels + turn * len(images.classes) for turn in turns]),
        ids=torch.cat([4 * images.ids + turn for turn in turns]),
        classes=_turned(images.classes),
        sources=(),
    )


def _turned(classes: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        name + (f", turned by {90 * turn}" if turn else "")
        for turn in range(4)
        for name in classes
    )
