"""From what a reader found to a train and a test split that agree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from tutelage.data.classes import class_names, encode
from tutelage.data.images import ImageSet, Splits
from tutelage.data.splits import hold_out
from tutelage.errors import UsageError

T = TypeVar("T")

TEST_NAMES = ("test", "validation", "val")
"""the names of a test split, best first"""


@dataclass(frozen=True)
class Examples:
    """One split as a reader found it."""

    images: Tensor
    """uint8 [N, C, H, W]"""
    labels: Sequence[Any]
    """N class names or class numbers, unchecked"""
    classes: tuple[str, ...] | None
    """the class names that the source declares; None where it does not"""
    where: str
    """the split, for messages"""


def choose(found: Mapping[str, T], *, where: str) -> tuple[T, T | None]:
    """The train split and the test split among those found.

    Args:
        found: What there is, by split name.
        where: The source, for the message.

    Returns:
        ``train``, and the first there is of ``test``, ``validation`` and ``val``, or None.

    Raises:
        UsageError: If there is no train split.
    """
    if "train" not in found:
        raise UsageError(
            f"{where} has no split 'train'; splits there: {', '.join(sorted(found))}."
        )
    return found["train"], next((found[name] for name in TEST_NAMES if name in found), None)


def assemble(train: Examples, test: Examples | None, *, name: str) -> Splits:
    """Two splits with the same classes and channels.

    The classes are those that the train split declares, or else those of its labels (see
    :func:`tutelage.data.classes.class_names`). Grey images become RGB where those of the
    other split are. Without a test split, a fixed fifth of every class of train is held out
    (see :func:`tutelage.data.splits.hold_out`); the rows keep their ids.

    Args:
        train: The training split.
        test: The test split, or None.
        name: The data set's name.

    Returns:
        Both splits.

    Raises:
        UsageError: If there are fewer than two classes, a label is missing or no class, the
            splits differ in image size, or no test split can be held out.
    """
    classes = train.classes or class_names(train.labels)
    learned = _image_set(train, classes, name)
    if len(classes) < 2:
        raise UsageError(
            f"{train.where} has one class only ('{', '.join(classes)}'); give two or more."
        )
    if test is None:
        return hold_out(learned)
    tested = _image_set(test, classes, name)
    channels = max(learned.images.shape[1], tested.images.shape[1])
    return Splits(_with_channels(learned, channels), _with_channels(tested, channels))


def _image_set(examples: Examples, classes: tuple[str, ...], name: str) -> ImageSet:
    labels = encode(examples.labels, classes, where=examples.where)
    return ImageSet(examples.images, labels, torch.arange(len(labels)), classes, name)


def _with_channels(images: ImageSet, channels: int) -> ImageSet:
    if images.images.shape[1] == channels:
        return images
    grey = images.images
    wide = grey.expand(-1, channels, -1, -1).contiguous()
    return ImageSet(wide, images.labels, images.ids, images.classes, images.name)
