"""Label values as tables store them: words, whole numbers, or none."""

import math
import re
from collections.abc import Sequence
from typing import Any

_NUMBER = re.compile(r"([+-]?(?:0|[1-9][0-9]*))(?:\.0+)?")
DIGITS = re.compile(r"\s*[+-]?[0-9]+(?:\.[0-9]*)?\s*")
"""names of classes that are numbers"""
_INFINITE = frozenset({"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"})


def literal(texts: Sequence[str]) -> list[str | int | float | None]:
    """Labels as written: whole numbers where all are such, words otherwise.

    A text of blanks alone is a missing label, and among numbers so is NaN; infinity is one that
    is no class. Words are never taken for missing: a class may be called ``null``, ``None`` or
    ``NA``.
    """
    plain = [text.strip().casefold() for text in texts]
    present = {text for text in plain if text not in ("", "nan")} - _INFINITE
    if present and all(whole_number(text) is not None for text in present):
        return [float(t) if t in _INFINITE else whole_number(t) for t in plain]
    return [text if text.strip() else None for text in texts]


def whole_number(text: str) -> int | None:
    """The whole number that a text is, as spreadsheets and pandas write one."""
    match = _NUMBER.fullmatch(text.strip())
    return None if match is None else int(match[1])


def is_missing(value: Any) -> bool:
    """Whether a label is none: nothing, NaN, or a text of blanks."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def alike(classes: Sequence[str]) -> list[tuple[tuple[str, ...], str]]:
    """Classes whose names differ in spelling alone."""
    groups: dict[str | float, list[str]] = {}
    for name in classes:
        digits = DIGITS.fullmatch(name)
        groups.setdefault(float(name) if digits else name.strip().casefold(), []).append(name)
    return [
        (
            tuple(names),
            "differ in case or blanks alone"
            if isinstance(plain, str)
            else "are the same number",
        )
        for plain, names in groups.items()
        if len(names) > 1
    ]
