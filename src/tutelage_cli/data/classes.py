"""From label values, words or numbers, to class numbers; ids that are no labels are refused."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from tutelage.errors import UsageError, nearest, one_line
from tutelage_cli.data.columns import TableRows
from tutelage_cli.data.label_values import DIGITS, is_missing, whole_number
from tutelage_cli.data.reading import Reading

MOST_NUMBERED = 10_000
"""classes up to which numbers that nobody has keep their place however many they are"""
_FEW = 20
"""labels up to which each may be another one"""
_DISTINCT = 0.8
"""share of different labels from which on they are taken for ids"""
_IGNORED = 255
"""the usual mark of an unlabelled example where labels are stored as bytes"""
_EXACT = 2**53
"""whole numbers beyond it are not all floats"""


def refuse_sparse(numbers: Collection[int], *, where: str) -> None:
    """Refuse class numbers hardly any of which are there."""
    top = max(numbers, default=-1)
    if top >= MOST_NUMBERED and top >= 2 * len(numbers):
        raise UsageError(
            f"{where} has labels up to {top}, but {len(numbers)} different ones: is this an "
            "id? Classes are numbered from 0. Name another column (--label-column), or write "
            "the classes as words."
        )


def refuse_ids(values: Sequence[Any], *, where: str) -> None:
    """Refuse a column in which nearly every row has a label of its own."""
    there = [str(value) for value in values if not is_missing(value)]
    distinct = len(set(there))
    if len(there) >= _FEW and distinct > _DISTINCT * len(there):
        raise UsageError(
            f"{where} has {distinct} different labels in {len(there)} rows, such as "
            f"'{there[0]:.50}' and '{there[1]:.50}': is this an id? A class has several "
            "examples. Name another column (--label-column)."
        )


def class_names(values: Sequence[Any], *, where: str = "the column") -> tuple[str, ...]:
    """The classes that a column of labels names.

    Words become classes in sorted order, and so do ``False`` and ``True``. Whole numbers become
    "0".."K-1" with K - 1 the largest, so that numbers nobody has keep their place; 255 does not
    count where 254 is absent, being the usual mark of an unlabelled example.
    """
    there = [value for value in values if not is_missing(value)]
    words = sorted({str(value) for value in there if isinstance(value, str | bool)})
    if words:
        return tuple(words)
    numbers = {number for number in map(_whole, there) if number is not None and number >= 0}
    if _IGNORED in numbers and _IGNORED - 1 not in numbers:
        numbers.remove(_IGNORED)
    refuse_sparse(numbers, where=where)
    return tuple(str(number) for number in range(max(numbers, default=-1) + 1))


def unlabelled(
    values: Sequence[Any], reading: Reading, declared: Sequence[str] | None = None
) -> list[int]:
    """The rows that are left out because they have no label."""
    marks, skipped = set(reading.ignore_labels), reading.missing_labels == "skip"
    marked = {place for place, name in enumerate(declared or ()) if name in marks}

    def left_out(value: Any) -> bool:
        if is_missing(value):
            return skipped
        number = None if isinstance(value, bool) else _whole(value)
        return number in marked or str(value if number is None else number) in marks

    return [row for row, value in enumerate(values) if left_out(value)]


class ClassLookup:
    """Which class a label is: the one that it names.

    A word is the class of that name. A number is the class that it is the name of, as ``1`` and
    ``1.0`` are of "1". Only where no class is named by a number can it be the place of one.

    Args:
        classes: The names of the classes.
        places: Whether a number may be the place of a class in ``classes``.
        declared: Names whose places the numbers are, where their own file says so.
    """

    def __init__(
        self,
        classes: Sequence[str],
        *,
        places: bool = False,
        declared: Sequence[str] | None = None,
    ) -> None:
        self.classes = tuple(classes)
        self.declared = declared
        self.by_name = {name: number for number, name in enumerate(classes)}
        wholes = [whole_number(name) for name in classes]
        once = Counter(wholes)
        self.by_number = {
            whole: number
            for number, whole in enumerate(wholes)
            if whole is not None and once[whole] == 1
        }
        numbered = any(DIGITS.fullmatch(name) for name in classes)
        self.places = len(classes) if places and not numbered else 0

    def code(self, value: Any) -> int | None:
        """The number of a label's class."""
        if isinstance(value, str | bool) and str(value) in self.by_name:
            return self.by_name[str(value)]
        whole = whole_number(value) if isinstance(value, str) else _whole(value)
        if whole is None:
            return None
        if self.declared is not None and not isinstance(value, str):
            inside = 0 <= whole < len(self.declared)
            return self.by_name.get(self.declared[whole]) if inside else None
        if whole in self.by_number:
            return self.by_number[whole]
        placed = not isinstance(value, str) and 0 <= whole < self.places
        return whole if placed else None


def encode(
    values: Sequence[Any],
    classes: tuple[str, ...],
    *,
    where: str,
    left_out: Collection[int] = (),
    lookup: ClassLookup | None = None,
    rows: TableRows | None = None,
    source: str = "",
) -> Int64[Tensor, "N"]:
    """The class number of every label."""
    lookup, rows = lookup or ClassLookup(classes), rows or TableRows.of(where, len(values))
    passed = set(left_out)
    looked_at = [(row, value) for row, value in enumerate(values) if row not in passed]
    missing = [row for row, value in looked_at if is_missing(value)]
    if missing:
        raise UsageError(
            f"{rows.rows_with('no label', missing)}; label these rows or remove them, or leave "
            "them out: --missing-labels skip."
        )
    codes = torch.full((len(values),), -1, dtype=torch.int64)
    for row, value in looked_at:
        code = lookup.code(value)
        if code is None:
            raise UsageError(_no_class(value, rows.at(row), lookup, source))
        codes[row] = code
    return codes


def _whole(value: Any) -> int | None:
    # True and False are 1 and 0; None marks a value that is no whole number.
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return None


def _no_class(value: Any, at: str, lookup: ClassLookup, source: str) -> str:
    begin, classes = f"{at} has label", lookup.classes
    whose = f" of {source}" if source else ""
    if isinstance(value, str | bool):
        return (
            f"{begin} '{one_line(str(value))}', which is no class{whose}. "
            f"{nearest(str(value), classes)}"
        )
    if _whole(value) is None:
        kind = type(value).__name__
        return f"{begin} {value!r:.50} of type {kind}; allowed: whole numbers or class names."
    numbered = classes == tuple(map(str, range(len(classes))))
    if not (numbered or lookup.places or lookup.declared):
        return (
            f"{begin} {_whole(value)}, which is no class{whose}. "
            f"{nearest(str(_whole(value)), classes)}"
        )
    return (
        f"{begin} {_whole(value)}; allowed: 0..{len(lookup.declared or classes) - 1}{whose}. "
        "Declare what marks rows as unlabelled (-1, 255) with --ignore-labels, or name another "
        "column."
    )
