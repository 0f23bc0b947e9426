"""Columns of tables by name, and rows as a spreadsheet counts them: the header is row 1."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tutelage.errors import UsageError, first_few, nearest

FIRST = 2
"""the row of a table's first example"""
COUNTED = "(the header is row 1)"
_SHOWN = 5
"""row numbers listed in a message"""
PATH_COLUMNS = ("path", "file", "file_name", "filename", "image")
NAME = "name"
NAME_COLUMNS = (NAME, *PATH_COLUMNS)
"""columns that say which example a row is about, tried in order"""


def pick(
    names: Sequence[str], wanted: str | None, guesses: Sequence[str], *, option: str, where: str
) -> str:
    """The wanted column, or the first guess that the table has."""
    if wanted is not None:
        if wanted not in names:
            raise UsageError(
                f"{where} has no column '{wanted}' ({option}). {nearest(wanted, names)}"
            )
        return wanted
    for guess in guesses:
        same = [name for name in names if name.strip().casefold() == guess]
        if len(same) > 1:
            raise UsageError(
                f"{where} has the columns {' and '.join(map(repr, same))}; name one of them "
                f"with {option}."
            )
        if same:
            return same[0]
    raise UsageError(
        f"{where} has none of the columns {', '.join(guesses)}; name one with {option}. "
        f"Columns there: {', '.join(names)}."
    )


def refuse_twice(names: Sequence[str], *, where: str) -> None:
    """Refuse a table in which two columns have one name."""
    twice = [name for name, count in Counter(names).items() if count > 1 and name.strip()]
    if twice:
        raise UsageError(
            f"{where} has several columns named {', '.join(map(repr, twice))}; give each a "
            "name of its own, or take all but one out."
        )


def numbers(count: int) -> range:
    """The row numbers of a table without empty lines."""
    return range(FIRST, count + FIRST)


def listed(rows: Sequence[int]) -> str:
    """Row numbers as text for a message."""
    return f"row{'s' if len(rows) > 1 else ''} {first_few(rows, _SHOWN)} {COUNTED}"


@dataclass(frozen=True)
class TableRows:
    """The file and the row of each of N examples."""

    files: tuple[tuple[str, Sequence[int]], ...]
    """in order: a file, and the row numbers of its examples"""
    array: bool = False
    """whether it is a NumPy array, of which messages give the index: it has no header"""

    @classmethod
    def of(cls, where: str, count: int, *, array: bool = False) -> "TableRows":
        """The rows of one table without empty lines, or of an array."""
        return cls(((where, numbers(count)),), array)

    @property
    def where(self) -> str:
        """The first file, for messages about all of them."""
        return self.files[0][0]

    def place(self, example: int) -> tuple[str, int]:
        """The file and the row of an example."""
        for file, rows in self.files:
            if example < len(rows):
                return file, rows[example]
            example -= len(rows)
        raise IndexError(f"{self.where} has {example} examples fewer")

    def at(self, example: int) -> str:
        """The file and the row of an example, as text."""
        file, row = self.place(example)
        return f"{self._listed([row])} of {file}"

    def rows_with(self, what: str, examples: Sequence[int]) -> str:
        """Say what some rows have."""
        found: dict[str, list[int]] = {}
        for file, row in map(self.place, examples):
            found.setdefault(file, []).append(row)
        few = list(found.items())[:_SHOWN]
        place = "at" if self.array else "in"
        shown = [f"{file} has {what} {place} {self._listed(rows)}" for file, rows in few]
        more = f" and {len(found) - _SHOWN} files more" if len(found) > _SHOWN else ""
        return ", ".join(shown) + more

    def names(self) -> tuple[str, ...]:
        """What the examples are called."""
        several = len(self.files) > 1
        return tuple(
            f"row {row} of {file.rsplit('/', 1)[-1]}" if several else f"row {row}"
            for file, rows in self.files
            for row in rows
        )

    def _listed(self, rows: Sequence[int]) -> str:
        if not self.array:
            return listed(rows)
        noun = "indices" if len(rows) > 1 else "index"
        return f"{noun} {first_few([row - FIRST for row in rows], _SHOWN)}"
