"""How a source is read: its columns, what to do with its faults, and the notes on them."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from tutelage.errors import UsageError, first_few

Broken = Literal["refuse", "skip"]
Empty = Literal["refuse", "keep"]
TABLES = (".csv", ".parquet")


@dataclass(frozen=True)
class Reading:
    """The columns of a source, and what to do with its faults.

    Rows that are left out change nothing for the others: ids are the row numbers in the whole
    source, and class numbers those of all its classes.
    """

    broken_images: Broken = "refuse"
    """skip: images that cannot be read are left out and listed"""
    empty_classes: Empty = "refuse"
    """keep: a class folder without images is a class that no example has"""
    missing_labels: Broken = "refuse"
    """skip: rows without a label are left out and listed"""
    ignore_labels: tuple[str, ...] = ()
    """labels that mark rows as unlabelled, such as 255; these rows are left out and listed"""
    image_size: int | None = None
    """pixels a side: the largest square about each image's centre is resized to it; None where
    all images have the same size"""
    image_column: str | None = None
    """of images, or of their paths; None: guessed"""
    label_column: str | None = None
    """None: guessed"""
    whole: bool = False
    """whether a source without a test part is all training part, and its test part empty; a
    fifth of it is the test part otherwise"""

    def __post_init__(self) -> None:
        """Check the size; see the class."""
        if self.image_size is not None and self.image_size < 1:
            raise UsageError(f"--image-size must be at least 1, got {self.image_size}.")


STRICT = Reading()
"""refuses every fault"""


class LeftOut(NamedTuple):
    """A file or folder that is not read."""

    path: Path
    why: str
    """in a word or two, such as ``.txt`` or ``hidden``"""


def is_table(path: Path, suffix: str) -> bool:
    """Whether a file is a table of a kind, and not hidden, as ``._a.csv`` is."""
    return path.suffix.casefold() == suffix and not path.name.startswith(".")


def note_on(root: Path, left: Sequence[LeftOut]) -> tuple[str, ...]:
    """Say what is left out of a folder."""
    if not left:
        return ()
    kinds = ", ".join(f"{n} {why}" for why, n in Counter(why for _, why in left).most_common())
    shown = first_few(path.relative_to(root).as_posix() for path, _ in left)
    noun = "entry is" if len(left) == 1 else "entries are"
    text = f"{len(left)} {noun} left out of {root} ({kinds}): {shown}."
    return (text.encode(errors="surrogateescape").decode(errors="replace"),)


def unread_tables(folder: Path, read: Collection[Path]) -> tuple[str, ...]:
    """Say which tables of a folder are not read."""
    if not folder.is_dir():
        return ()
    places = {folder, *(file.parent for file in read)}
    tables = sorted(
        path
        for place in places
        for path in place.iterdir()
        if path.suffix.casefold() in TABLES and path.is_file()
    )
    left = [LeftOut(path, path.suffix.casefold()) for path in tables if path not in read]
    return note_on(folder, left)
