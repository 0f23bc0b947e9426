"""Label columns of all readers, and the classes that all parts of a source share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Int64
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.classes import ClassLookup, class_names, encode, refuse_ids, unlabelled
from tutelage_cli.data.columns import TableRows
from tutelage_cli.data.label_values import is_missing, literal
from tutelage_cli.data.reading import Reading


@dataclass(frozen=True)
class LabelColumn:
    """The labels of N examples, as one file or several store them."""

    values: Sequence[Any]
    """words, numbers or None"""
    rows: TableRows
    declared: tuple[str, ...] | None = None
    """the class names whose places its numbers are; None where the file names none"""
    typed: bool = True
    """whether the file has types; a csv file has words alone"""

    @property
    def where(self) -> str:
        """The first file."""
        return self.rows.where

    def labelled(self, reading: Reading) -> list[Any]:
        """The labels of the rows that are not left out."""
        without = set(unlabelled(self.values, reading, self.declared))
        kept = [value for row, value in enumerate(self.values) if row not in without]
        if self.typed:
            return kept
        return literal(["" if value is None else str(value) for value in kept])


def refuse_mixed(kinds: Sequence[tuple[str, str]]) -> None:
    """Refuse files of one part that differ in what their labels are."""
    found = {kind: where for kind, where in reversed(kinds) if kind}
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise UsageError(
            f"labels are {one} in {first}, but {other} in {second}: write them the same way in "
            "all files."
        )


def concatenate_labels(columns: Sequence[LabelColumn]) -> LabelColumn:
    """The labels of files that follow one another."""
    rows = TableRows(tuple(file for column in columns for file in column.rows.files))
    declared = list(dict.fromkeys(c.declared for c in columns if c.declared is not None))
    if len(declared) < 2:
        values = [value for column in columns for value in column.values]
        return LabelColumn(values, rows, next(iter(declared), None))
    names = tuple(dict.fromkeys(name for known in declared for name in known))
    values = [label for column in columns for label in _renumbered(column, names)]
    return LabelColumn(values, rows, names)


def _renumbered(column: LabelColumn, names: tuple[str, ...]) -> list[Any]:
    own, place = column.declared, {name: number for number, name in enumerate(names)}
    if own is None and any(value is not None for value in column.values):
        raise UsageError(
            f"{column.where} has numbers for labels but does not name their classes, and other "
            "files name different ones: declare its classes, too."
        )
    found: list[Any] = []
    for example, value in enumerate(column.values):
        inside = own is not None and isinstance(value, int) and 0 <= value < len(own)
        if not inside and isinstance(value, int) and 0 <= value < len(names):
            raise UsageError(
                f"{column.rows.at(example)} has label {value}; allowed: "
                f"0..{len(own or ()) - 1}, the classes that it names."
            )
        found.append(place[own[value]] if own is not None and inside else value)
    return found


def agreed_classes(
    train: LabelColumn, test: LabelColumn | None, reading: Reading
) -> tuple[str, ...]:
    """The classes of both parts: those declared, or else those of train's labels."""
    if train.declared is not None:
        return train.declared
    found = train.labelled(reading)
    if all(map(is_missing, found)):
        raise UsageError(f"{train.where} holds no row with a label; give a source with some.")
    numbers = not any(isinstance(value, str | bool) for value in found if not is_missing(value))
    if test is not None and test.declared is not None and numbers:
        return test.declared
    refuse_ids(found, where=train.where)
    return class_names(found, where=train.where)


def class_numbers(
    column: LabelColumn,
    classes: tuple[str, ...],
    reading: Reading,
    *,
    beside: LabelColumn | None = None,
    source: str = "",
) -> tuple[Int64[Tensor, "N"], tuple[str, ...]]:
    """The class of each label, and what was left out."""
    without = unlabelled(column.values, reading, column.declared)
    # a number may be the place of a class where one of the two parts names them in order
    declared = (column.declared, None if beside is None else beside.declared)
    lookup = ClassLookup(classes, places=classes in declared, declared=column.declared)
    codes = encode(
        column.values,
        classes,
        where=column.where,
        left_out=without,
        lookup=lookup,
        rows=column.rows,
        source=source,
    )
    notes = (f"{column.rows.rows_with('no label', without)}: left out.",) if without else ()
    return codes, notes
