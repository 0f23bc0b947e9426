"""A train and a test split with the same classes, from what a reader found."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from tutelage.errors import UsageError, first_few
from tutelage_cli.data.columns import TableRows
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.label_columns import LabelColumn, agreed_classes, class_numbers
from tutelage_cli.data.label_values import alike
from tutelage_cli.data.labelled import Set, Splits
from tutelage_cli.data.mapped import Rows, chosen, with_channels
from tutelage_cli.data.reading import STRICT, Reading
from tutelage_cli.data.splits import hold_out

T = TypeVar("T")

TEST_NAMES = ("test", "validation", "val")
"""the names of a test split, best first"""


@dataclass(frozen=True)
class Examples:
    """One split as a reader found it."""

    images: Rows
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

    def found(self, name: str, channels: int) -> "Found[ImageSet]":
        """These examples as a set of images of so many channels, not yet built."""

        def build(codes: Tensor, classes: tuple[str, ...]) -> ImageSet:
            kept = codes[self.rows] >= 0
            rows, images = self.rows[kept], chosen(self.images, kept)
            if images.shape[1] < channels:
                images = with_channels(images, channels)
            return ImageSet(images, codes[rows], rows, classes, name, _distinct(self.names))

        return Found(self.column, build, self.where, self.notes)


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


@dataclass(frozen=True)
class Found(Generic[Set]):
    """One split as a reader found it, its labels not yet class numbers."""

    column: LabelColumn
    build: Callable[[Tensor, tuple[str, ...]], Set]
    """from the class of each row, -1 where it is left out, and the names of the classes"""
    where: str
    notes: tuple[str, ...] = ()


def assemble(
    train: Found[Set], test: Found[Set] | None, reading: Reading = STRICT
) -> Splits[Set]:
    """Two splits with the same classes.

    The classes are those that the train split declares, or else those of its labels (see
    :func:`tutelage_cli.data.classes.class_names`). Without a test split, a fixed fifth of every
    class of train is held out (see :func:`tutelage_cli.data.splits.hold_out`); the rows keep
    their ids.
    """
    beside = None if test is None else test.column
    classes = agreed_classes(train.column, beside, reading)
    codes, left_out = class_numbers(train.column, classes, reading, beside=beside)
    if len(classes) < 2:
        raise UsageError(
            f"{train.where} has one class only ('{', '.join(classes)}'); give two or more."
        )
    learned = train.build(codes, classes)
    notes = train.notes + left_out + about_classes(learned.labels, classes)
    if test is None:
        if reading.whole:
            return Splits(learned, learned.rows(torch.arange(0)), notes)
        splits = hold_out(learned)
    else:
        codes, left_out = class_numbers(
            test.column, classes, reading, beside=train.column, source=train.where
        )
        splits = Splits(learned, test.build(codes, classes))
        notes += test.notes + left_out
    lacking = about_others(splits.train.labels, splits.test.labels, classes)
    return replace(splits, notes=notes + lacking)


def assemble_images(
    train: Examples, test: Examples | None, *, name: str, reading: Reading = STRICT
) -> Splits[ImageSet]:
    """Two splits of images; grey images become RGB where those of the other split are."""
    parts = [train] if test is None else [train, test]
    counts = [part.images.shape[1] for part in parts]
    found = [part.found(name, max(counts)) for part in parts]
    splits = assemble(found[0], found[1] if test is not None else None, reading)
    if min(counts) < max(counts) and len(splits.train) and len(splits.test):
        narrow = "train" if counts[0] < counts[1] else "test"
        note = about_channels(f"{name}, {narrow}", min(counts), max(counts))
        splits = replace(splits, notes=(*splits.notes, note))
    return splits


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
    train: Tensor, test: Tensor, classes: tuple[str, ...], *, examples: str = "test example"
) -> tuple[str, ...]:
    """Which classes of a train split other labels lack, such as those of its test split."""
    in_train, in_test = (torch.bincount(y, minlength=len(classes)) > 0 for y in (train, test))
    lacking = [classes[c] for c in (in_train & ~in_test).nonzero().flatten().tolist()]
    return (f"No {examples} is of class {first_few(lacking)}.",) if lacking else ()


def about_channels(where: str, channels: int, others: int) -> str:
    """What happens to images of fewer channels than others have."""
    return (
        f"{where} has images of {channels} channel{'s' if channels > 1 else ''}, unlike the "
        f"others of {others}: the channel is repeated."
    )
