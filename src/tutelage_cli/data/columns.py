"""Which column of a table holds the images, the labels, or the names of examples."""

from collections import Counter
from collections.abc import Sequence

from tutelage.errors import UsageError, nearest

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
