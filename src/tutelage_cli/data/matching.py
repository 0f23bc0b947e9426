"""Which row of a second table is about which example: by its names or ids, never by guess."""

import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tutelage.errors import UsageError, first_few
from tutelage_cli.data.columns import NAME_COLUMNS, TableRows
from tutelage_cli.data.label_values import is_missing, whole_number

ROW_COUNTERS = ("", "unnamed: 0", "__index_level_0__")
"""what pandas calls the numbers of a table's rows, which may say nothing but their order"""
ID_COLUMNS = (
    "id",
    "ids",
    "index",
    "idx",
    "row",
    "row_id",
    "example_id",
    "sample_id",
    "image_id",
    *ROW_COUNTERS,
)
"""columns of the places of examples in their source, counted from 0 or from 1"""
COUNTED_FROM = (
    "may count from 0 or from 1; if from 0, add a row of id 0, else call the examples by name"
)
_WAY_OUT = "or take the column out to go row by row"
_OF_A_ROW = re.compile(r"row \d+( of .*)?", re.DOTALL)
_OF_AN_ID = re.compile(r"id (-?\d+)")
_LOG = logging.getLogger(__name__)


class Known(NamedTuple):
    """N examples that a table may be about."""

    ids: Sequence[int]
    """their rows in the source, from 0"""
    names: Sequence[str] = ()
    """what they are called; none where they have no names of their own"""
    rows: int = 0
    """of the whole source, others than these among them; 0: not known"""

    @classmethod
    def of(cls, data: Any) -> "Known":
        """The examples of a set of images, texts or feature vectors."""
        names = data.names() if data.sources else ()
        return cls(data.ids.tolist(), names, len(data.sources))

    @property
    def numbered(self) -> bool:
        """Whether their names are nothing but numbers, of rows or ids."""
        return all(_OF_A_ROW.fullmatch(name) for name in self.names) or bool(self.own_ids)

    @property
    def own_ids(self) -> list[int]:
        """The numbers by which ``names_by_id`` named them; none for other names."""
        found = [_OF_AN_ID.fullmatch(name) for name in self.names]
        return [int(match[1]) for match in found if match] if all(found) else []


class Match(NamedTuple):
    """Which row of a table is about which of N examples."""

    column: str
    """that says so"""
    places: list[int]
    """N rows, from 0"""
    how: str


def key_columns(columns: Iterable[str], known: Sequence[str]) -> list[str]:
    """Those of some known names that a table has, in their order, as they are spelled there."""
    spelled: dict[str, str] = {}
    for name in columns:
        spelled.setdefault(name.strip().casefold(), name)
    return [spelled[name] for name in known if name in spelled]


def names_by_id(values: Iterable[Any]) -> list[str]:
    """Names of examples by a column of ids: a number as ``id 7``, a word as it is.

    None where the column lacks some, or does not distinguish all examples.
    """
    texts = ["" if is_missing(value) else str(value).strip() for value in values]
    numbers = map(whole_number, texts)
    names = [t if n is None else f"id {n}" for t, n in zip(texts, numbers, strict=True)]
    return names if "" not in names and len(set(names)) == len(names) else []


def match_of(
    columns: Mapping[str, Sequence[Any]],
    examples: Known,
    rows: TableRows,
    *,
    without: Collection[str] = (),
) -> Match | None:
    """For each example its row of a table, and the column that says so.

    A column of names is taken before one of ids; of ids, those that the examples have, else
    one that counts from 0 or from 1. None where no column says it; refused where two disagree.
    """
    keys = [k for k in key_columns(columns, (*NAME_COLUMNS, *ID_COLUMNS)) if k not in without]
    keys = [k for k in keys if not all(map(is_missing, columns[k]))]
    matches = _matches({key: columns[key] for key in keys}, examples, rows)
    if not matches:
        if keys:
            _LOG.warning(
                "%s is taken row by row: no example has a name to be found under in column "
                "'%s'.",
                rows.where,
                keys[0],
            )
        return None
    match = _agreed(matches, rows)
    if match.places != list(range(len(match.places))):
        _LOG.warning("%s: matched by column '%s', %s.", rows.where, match.column, match.how)
    return match


def _matches(
    columns: Mapping[str, Sequence[Any]], examples: Known, rows: TableRows
) -> list[Match]:
    # by names, or by every column of ids that fits; raises where there are some and none fits
    matches: list[Match] = []
    faults: list[UsageError] = []
    for key, values in columns.items():
        if (named := _by_names(key, values, examples, rows)) is not None:
            return [named]
        try:
            _refuse_strangers(key, values, examples, rows)
            match = _by_ids(key, values, examples, rows)
            matches += [] if match is None else [match]
        except UsageError as error:
            faults.append(error)
    if faults and not matches:
        raise faults[0]
    return matches


def base_of(found: Collection[int], examples: Known) -> int | None:
    """From which number ids count: 0 or 1; None where they fit neither, refused where both."""
    ids, there = set(examples.ids), set(found)
    top = examples.rows or max(there, default=0) + 1

    def fits(base: int) -> bool:
        lacking = any(number + base not in there for number in ids)
        return not lacking and min(there) >= base and max(there) < top + base

    fitting = [base for base in (0, 1) if there and fits(base)]
    if len(fitting) > 1:
        raise UsageError(f"its ids {COUNTED_FROM}")
    return fitting[0] if fitting else None


def names_of_files(names: Sequence[str]) -> list[Sequence[str]]:
    """Names of files: their paths, the last part of these, and that without ending."""
    last = [name.rsplit("/", 1)[-1] for name in names]
    bare = [name.rsplit(".", 1)[0] if "." in name else name for name in last]
    return [each for each in (names, last, bare) if len(set(each)) == len(names)]


def _by_names(
    column: str, values: Sequence[Any], examples: Known, rows: TableRows
) -> Match | None:
    texts = ["" if is_missing(v) else str(v).replace("\\", "/").strip() for v in values]
    place = {text: row for row, text in enumerate(texts)}
    candidates = names_of_files(examples.names) if examples.names else []
    names = next((c for c in candidates if any(name in place for name in c)), None)
    if names is None or (
        names is not candidates[0] and column.strip().casefold() in ROW_COUNTERS
    ):
        return None
    _refuse_twice(column, texts, rows, "name")
    if missing := [name for name in names if name not in place]:
        raise UsageError(
            f"{rows.where} has no row for {first_few(missing)}; add them, or take its column "
            f"'{column}' out to go row by row."
        )
    if others := sorted(set(texts) - set(names)):
        _LOG.warning(
            "%s: %d rows are about no training example and left out (%s).",
            rows.where,
            len(others),
            first_few(others),
        )
    return Match(column, [place[name] for name in names], "the names of the examples")


def _refuse_strangers(
    column: str, values: Sequence[Any], examples: Known, rows: TableRows
) -> None:
    # words that name no example, where examples have names of their own
    words = any(isinstance(v, str) and v.strip() and whole_number(v) is None for v in values)
    if words and not examples.numbered:
        raise UsageError(
            f"{rows.where} has no row for {first_few(examples.names)}; add them, or take its "
            f"column '{column}' out to go row by row."
        )


def _by_ids(
    column: str, values: Sequence[Any], examples: Known, rows: TableRows
) -> Match | None:
    texts = ["" if is_missing(value) else str(value) for value in values]
    numbers = [whole_number(text) for text in texts]
    if all(number is None for number in numbers) or (
        column.strip().casefold() in NAME_COLUMNS and None in numbers
    ):
        return None
    if odd := [row for row, number in enumerate(numbers) if number is None]:
        raise UsageError(
            f"column '{column}' of {rows.rows_with('no id', odd)}: give each row one, "
            f"{_WAY_OUT}."
        )
    _refuse_twice(column, [str(number) for number in numbers], rows, "id")
    place = {number: row for row, number in enumerate(numbers) if number is not None}
    own = examples.own_ids
    if own and place.keys() >= set(own):
        return Match(column, [place[number] for number in own], "the ids of the examples")
    try:
        base = base_of(place, examples)
    except UsageError as error:
        raise UsageError(f"{rows.where}, column '{column}': {error}, {_WAY_OUT}.") from error
    if base is None:
        raise UsageError(_other_ids(column, place, examples, rows))
    return Match(column, [place[number + base] for number in examples.ids], f"ids from {base}")


def _other_ids(column: str, place: Mapping[int, int], known: Known, rows: TableRows) -> str:
    top = known.rows or max(known.ids, default=-1) + 1
    base = 0 if 0 in place else 1
    lacking = [number + base for number in known.ids if number + base not in place]
    extra = sorted(number for number in place if not base <= number < top + base)
    faults = [
        *([f"it lacks {first_few(lacking)}"] if lacking else []),
        *([f"no example has {first_few(extra)}"] if extra else []),
    ]
    return (
        f"column '{column}' of {rows.where} holds {len(place)} ids, but not those of the "
        f"examples, {base} to {top + base - 1}: {', and '.join(faults)}. Mend them, {_WAY_OUT}."
    )


def _refuse_twice(column: str, texts: Sequence[str], rows: TableRows, what: str) -> None:
    if missing := [row for row, text in enumerate(texts) if not text]:
        raise UsageError(f"{rows.rows_with(f'no {what}', missing)}; {what} these examples.")
    twice = next((text for text, count in Counter(texts).items() if count > 1), None)
    if twice is not None:
        same = [row for row, text in enumerate(texts) if text == twice]
        repeated = (
            f"several rows of {twice}" if what == "name" else f"several rows of id {twice}"
        )
        raise UsageError(
            f"{rows.rows_with(repeated, same)} (column '{column}'); keep one for each example."
        )


def _agreed(matches: Sequence[Match], rows: TableRows) -> Match:
    def says_nothing(match: Match) -> bool:
        plain = match.places == list(range(len(match.places)))
        return plain and match.column.strip().casefold() in ROW_COUNTERS

    telling = [match for match in matches if not says_nothing(match)] or list(matches)
    first, other = telling[0], next((m for m in telling if m.places != telling[0].places), None)
    if other is not None:
        raise UsageError(
            f"{rows.where} numbers its rows by columns '{first.column}' and '{other.column}', "
            "which disagree: take one of them out."
        )
    return first
