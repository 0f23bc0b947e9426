"""A train and a test split with the same classes, from what a reader found."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from tutelage.errors import UsageError, first_few
from tutelage_cli.data.images import ImageSet, Splits
from tutelage_cli.data.label_columns import LabelColumn, agreed_classes, class_numbers
from tutelage_cli.data.label_values import alike
from tutelage_cli.data.reading import STRICT, Reading
from tutelage_cli.data.row_numbers import TableRows
from tutelage_cli.data.splits import hold_out

T = TypeVar("T")

TEST_NAMES = ("test", "validation", "val")
"""the names of a test split, best first"""


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
    table: TableRows | None = None
    """file and row of the N rows; None for those of one table without empty lines"""
    typed: bool = True
    """whether the source has types, so that numbers differ from words"""

    @property
    def column(self) -> LabelColumn:
        """The labels, as the source stores them."""
        rows = self.table or TableRows.of(self.where, len(self.labels))
        return LabelColumn(self.labels, rows, self.classes, self.typed)


def unread_parts(found: Mapping[str, object], *, where: str) -> tuple[str, ...]:
    """The splits that :func:`choose` leaves out."""
    test = next((name for name in TEST_NAMES if name in found), None)
    left = sorted(name for name in found if name not in ("train", test))
    if not left:
        return ()
    read = "train" if test is None else f"train and {test}"
    return (f"Of {where} only {read} is read: {', '.join(left)} left out.",)


def choose(found: Mapping[str, T], *, where: str) -> tuple[T, T | None]:
    """The train split and the test split among those found."""
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
    :func:`tutelage_cli.data.classes.class_names`). Grey images become RGB where those of the
    other split are. Without a test split, a fixed fifth of every class of train is held out
    (see :func:`tutelage_cli.data.splits.hold_out`); the rows keep their ids.
    """
    column = train.column
    beside = None if test is None else test.column
    classes = agreed_classes(column, beside, reading)
    codes, left_out = class_numbers(column, classes, reading, beside=beside)
    if len(classes) < 2:
        raise UsageError(
            f"{train.where} has one class only ('{', '.join(classes)}'); give two or more."
        )
    learned = _image_set(train, codes, classes, name)
    notes = train.notes + left_out + about_classes(learned.labels, classes)
    if test is None or beside is None:
        if reading.whole:
            return Splits(learned, learned.rows(torch.arange(0)), notes)
        parts = hold_out(learned)
        lacking = about_others(parts.train.labels, parts.test.labels, classes)
        return replace(parts, notes=notes + lacking)
    codes, left_out = class_numbers(beside, classes, reading, beside=column, of=train.where)
    tested = _image_set(test, codes, classes, name)
    notes += test.notes + left_out + about_others(learned.labels, tested.labels, classes)
    ours, theirs = learned.images.shape[1], tested.images.shape[1]
    if len(learned) and len(tested) and ours != theirs:
        narrow = "train" if ours < theirs else "test"
        notes += (about_channels(f"{name}, {narrow}", min(ours, theirs), max(ours, theirs)),)
    channels = max(ours, theirs)
    return Splits(*(_with_channels(part, channels) for part in (learned, tested)), notes=notes)


def _image_set(
    examples: Examples, codes: Tensor, classes: tuple[str, ...], name: str
) -> ImageSet:
    images, rows = examples.images, examples.rows
    kept = codes[rows] >= 0
    if not bool(kept.all()):
        images, rows = images[kept], rows[kept]
    return ImageSet(images, codes[rows], rows, classes, name, _distinct(examples.names))


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
    """What is worth knowing of the classes of a train split."""
    counts = torch.bincount(labels, minlength=len(classes))
    absent = [classes[c] for c in (counts == 0).nonzero().flatten().tolist()]
    notes = [
        f"{', '.join(map(repr, names))} {how}, and are classes apart."
        for names, how in alike(classes)
    ]
    if absent:
        notes.append(
            f"No training example is of class {first_few(absent)}: such classes keep their "
            f"numbers among the {len(classes)} there are."
        )
    return tuple(notes)


def about_others(
    train: Tensor, test: Tensor, classes: tuple[str, ...], *, of: str = "test example"
) -> tuple[str, ...]:
    """Which classes of a train split other labels lack, such as those of its test split."""
    in_train, in_test = (torch.bincount(y, minlength=len(classes)) > 0 for y in (train, test))
    lacking = [classes[c] for c in (in_train & ~in_test).nonzero().flatten().tolist()]
    return (f"No {of} is of class {first_few(lacking)}.",) if lacking else ()


def about_channels(where: str, channels: int, others: int) -> str:
    """What happens to images of fewer channels than others have."""
    return (
        f"{where} has images of {channels} channel{'s' if channels > 1 else ''}, unlike the "
        f"others of {others}: the channel is repeated."
    )


def _with_channels(images: ImageSet, channels: int) -> ImageSet:
    if images.images.shape[1] == channels:
        return images
    wide = images.images.expand(-1, channels, -1, -1).contiguous()
    return replace(images, images=wide)
