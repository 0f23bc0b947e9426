"""What a reader of folders and tables leaves out, counted and named."""

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from tutelage.errors import first_few

TABLES = (".csv", ".parquet")


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
