"""From what a reader found to a train and a test split that agree."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from tutelage.data.classes import alike, class_names, encode, listed, unlabelled
from tutelage.data.images import ImageSet, Splits
from tutelage.data.reading import STRICT, Reading
from tutelage.data.splits import hold_out
from tutelage.errors import UsageError

T = TypeVar("T")

TEST_NAMES = ("test", "validation", "val")
"""the names of a test split, best first"""
_SHOWN = 5
"""absent classes listed in a note"""


@dataclass(frozen=True)
class Examples:
    """One split as a reader found it."""

    images: Tensor
    """uint8 [M, C, H, W]"""
    labels: Sequence[Any]
    """N class names or class numbers, unchecked"""
    classes: tuple[str, ...] | None
    """the class names that the source declares; None where it does not"""
    where: str
    """the split, for messages"""
    rows: Tensor
    """int64 [M]: which of the N rows have an image, rising"""
    names: tuple[str, ...]
    """what each of the N rows is called, such as a path below the source"""
    notes: tuple[str, ...] = ()
    """what was left out, a sentence each"""


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


def assemble(
    train: Examples, test: Examples | None, *, name: str, reading: Reading = STRICT
) -> Splits:
    """Two splits with the same classes and channels.

    The classes are those that the train split declares, or else those of its labels (see
    :func:`tutelage.data.classes.class_names`). Grey images become RGB where those of the
    other split are. Without a test split, a fixed fifth of every class of train is held out
    (see :func:`tutelage.data.splits.hold_out`); the rows keep their ids.

    Args:
        train: The training split.
        test: The test split, or None.
        name: The data set's name.
        reading: What becomes of rows without a label.

    Returns:
        Both splits.

    Raises:
        UsageError: If there are fewer than two classes, a label is missing or no class, the
            splits differ in image size, or no test split can be held out.
    """
    without = set(unlabelled(train.labels, reading))
    labels = [value for row, value in enumerate(train.labels) if row not in without]
    classes = train.classes or class_names(labels)
    learned, notes = _image_set(train, classes, name, reading)
    notes += about_classes(learned.labels, classes)
    if len(classes) < 2:
        raise UsageError(
            f"{train.where} has one class only ('{', '.join(classes)}'); give two or more."
        )
    if test is None:
        return replace(hold_out(learned), notes=notes)
    tested, more = _image_set(test, classes, name, reading)
    channels = max(learned.images.shape[1], tested.images.shape[1])
    both = _with_channels(learned, channels), _with_channels(tested, channels)
    return Splits(*both, notes=notes + more)


def _image_set(
    examples: Examples, classes: tuple[str, ...], name: str, reading: Reading
) -> tuple[ImageSet, tuple[str, ...]]:
    without = unlabelled(examples.labels, reading)
    labels = encode(examples.labels, classes, where=examples.where, left_out=without)
    notes, images, rows = examples.notes, examples.images, examples.rows
    if without:
        notes += (f"{examples.where} has no label in {listed(without)}: left out.",)
        kept = labels[rows] >= 0
        images, rows = images[kept], rows[kept]
    return ImageSet(images, labels[rows], rows, classes, name, _distinct(examples.names)), notes


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    # the same file may be listed twice, with two labels; its name may be no valid Unicode
    seen: Counter[str] = Counter()
    found = []
    for raw in names:
        name = raw.encode(errors="surrogateescape").decode(errors="replace")
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(found)


def about_classes(labels: Tensor, classes: tuple[str, ...]) -> tuple[str, ...]:
    """What is worth knowing of the classes of a train split.

    Args:
        labels: int64 [N].
        classes: Their names.

    Returns:
        A sentence each: names that may be meant as one, and classes that no example has.
    """
    counts = torch.bincount(labels, minlength=len(classes))
    absent = [classes[c] for c in (counts == 0).nonzero().flatten().tolist()]
    notes = [
        f"{', '.join(map(repr, names))} differ in case or blanks alone, and are classes apart."
        for names in alike(classes)
    ]
    if absent:
        shown = ", ".join(absent[:_SHOWN])
        more = f" and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else ""
        notes.append(
            f"No training example is of class {shown}{more}: such classes keep their numbers "
            f"among the {len(classes)} there are."
        )
    return tuple(notes)


def _with_channels(images: ImageSet, channels: int) -> ImageSet:
    if images.images.shape[1] == channels:
        return images
    wide = images.images.expand(-1, channels, -1, -1).contiguous()
    return replace(images, images=wide)
