"""From label values, words or numbers, to class numbers."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from tutelage.data.reading import Reading
from tutelage.errors import UsageError, nearest

_IGNORED = 255
"""the usual mark of an unlabelled example where labels are stored as bytes"""
_SHOWN = 5
"""row numbers listed in a message"""


def class_names(values: Sequence[Any]) -> tuple[str, ...]:
    """The classes that a column of labels speaks of.

    Words become classes in sorted order. Whole numbers become "0".."K-1" with K - 1 the
    largest, so that numbers nobody has keep their place; 255 does not count where 254 is
    absent, being the usual mark of an unlabelled example.

    Args:
        values: Labels; missing and negative ones are passed over.

    Returns:
        The class names.
    """
    words = sorted({value for value in values if isinstance(value, str)})
    if words:
        return tuple(words)
    numbers = {_whole(value) for value in values} - {None}
    if _IGNORED in numbers and _IGNORED - 1 not in numbers:
        numbers.remove(_IGNORED)
    top = max((number for number in numbers if number is not None), default=-1)
    return tuple(str(number) for number in range(top + 1))


def unlabelled(values: Sequence[Any], reading: Reading) -> list[int]:
    """The rows that are to be left out for want of a label.

    Args:
        values: N labels.
        reading: Whether missing ones are skipped, and which labels stand for none.

    Returns:
        Row numbers, rising.
    """
    marks, skipped = set(reading.ignore_labels), reading.missing_labels == "skip"

    def left_out(value: Any) -> bool:
        if _is_missing(value):
            return skipped
        number = _whole(value)
        return str(value if number is None else number) in marks

    return [row for row, value in enumerate(values) if left_out(value)]


def encode(
    values: Sequence[Any],
    classes: tuple[str, ...],
    *,
    where: str,
    left_out: Collection[int] = (),
) -> Int64[Tensor, "N"]:
    """The class number of every label.

    Args:
        values: N labels, each the name of a class or its number.
        classes: The names of the classes.
        where: The column, for the message.
        left_out: Rows whose labels are not looked at.

    Returns:
        Numbers in 0..len(classes)-1, and -1 in the rows left out.

    Raises:
        UsageError: If labels are missing, or one is no class.
    """
    passed = set(left_out)
    looked_at = [(row, value) for row, value in enumerate(values) if row not in passed]
    missing = [row for row, value in looked_at if _is_missing(value)]
    if missing:
        raise UsageError(
            f"{where} has no label in {listed(missing)}; label these rows or remove them, or "
            "leave them out: missing_labels skip (--missing-labels skip)."
        )
    numbers = {name: number for number, name in enumerate(classes)}
    codes = torch.full((len(values),), -1, dtype=torch.int64)
    for row, value in looked_at:
        code = _code(value, numbers)
        if code is None:
            raise UsageError(_no_class(value, row, classes, where))
        codes[row] = code
    return codes


def alike(classes: Sequence[str]) -> list[tuple[str, ...]]:
    """Classes whose names differ in case or in blanks around them alone.

    Args:
        classes: Class names.

    Returns:
        Groups of two and more, in the order of their first names.
    """
    groups: dict[str, list[str]] = {}
    for name in classes:
        groups.setdefault(name.strip().casefold(), []).append(name)
    return [tuple(names) for names in groups.values() if len(names) > 1]


def listed(rows: Sequence[int]) -> str:
    """Row numbers as they stand in a message.

    Args:
        rows: At least one row number.

    Returns:
        ``"row 3"``, ``"rows 1, 2"``, or the first five and how many more.
    """
    shown = ", ".join(str(row) for row in rows[:_SHOWN])
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more} (counted from 0)"


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _whole(value: Any) -> int | None:
    # True and False are 1 and 0; None stands for a value that is no whole number.
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return None


def _code(value: Any, numbers: Mapping[str, int]) -> int | None:
    if isinstance(value, str):
        return numbers.get(value)
    number = _whole(value)
    return number if number is not None and 0 <= number < len(numbers) else None


def _no_class(value: Any, row: int, classes: tuple[str, ...], where: str) -> str:
    begin = f"row {row} (counted from 0) of {where} has label"
    if isinstance(value, str):
        return f"{begin} '{value}', which is no class. {nearest(value, classes)}"
    if _whole(value) is None:
        kind = type(value).__name__
        return f"{begin} {value!r} of type {kind}; allowed: whole numbers or class names."
    return (
        f"{begin} {_whole(value)}; allowed: 0..{len(classes) - 1}. "
        "Declare what marks rows as unlabelled (-1, 255) with ignore_labels, or name another "
        "column."
    )
