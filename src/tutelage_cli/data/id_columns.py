"""Columns of ids that are taken for labels."""

from collections.abc import Collection, Sequence
from typing import Any

from tutelage.errors import UsageError
from tutelage_cli.data.label_values import is_missing

MOST_NUMBERED = 10_000
"""classes up to which numbers that nobody has keep their place however many they are"""
_FEW = 20
"""labels up to which each may be another one"""
_DISTINCT = 0.8
"""share of different labels from which on they are taken for ids"""


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
