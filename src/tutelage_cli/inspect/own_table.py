"""A table of examples from a loop of one's own, such as of texts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tutelage.errors import UsageError
from tutelage_cli.data.columns import NAME_COLUMNS, TableRows
from tutelage_cli.data.csv_files import CsvColumns
from tutelage_cli.data.example_columns import finite, read_columns, rows_of
from tutelage_cli.data.label_values import alike, literal, whole_number
from tutelage_cli.inspect.example_tables import PROBABILITY, ExampleTable, HeldOutTable

GIVEN_COLUMNS = ("given", "label")
TEXT_COLUMNS = ("text", "sentence", "sentence1")
HELD_OUT_COLUMN = "held_out"
YES, NO = ("true", "1", "1.0", "yes"), ("false", "0", "0.0", "no", "", "none")
MISSING = ("", "nan", "none")
"""what a number that is not known is written as"""


def read_own(file: Path) -> ExampleTable:
    """Read a table with a row for each example."""
    columns = read_columns(file)
    rows = rows_of(columns, str(file))
    given = _first(columns, GIVEN_COLUMNS)
    count = 0 if given is None else len(given)
    chances = any(name.startswith(PROBABILITY) for name in columns)
    if given is None or not count or not (chances or {"loss", "weight"} & columns.keys()):
        raise UsageError(
            f"{file} is no table of examples: it needs a column {' or '.join(GIVEN_COLUMNS)}, "
            f"and loss or weight or {PROBABILITY}CLASS, with a row for each; it has "
            f"{', '.join(columns) or 'none'}."
        )
    labels = _classes(given)
    predicted, true = (
        _classes(columns[name]) if name in columns else None for name in ("predicted", "true")
    )
    for name, column in (("predicted", predicted), ("true", true)):
        _refuse_other_kind(labels, column, name, file)
    clean = _flags(columns.get(HELD_OUT_COLUMN), rows)
    labelled = np.array([bool(label) for label in labels], dtype=bool)
    trained = np.flatnonzero(~clean & labelled)
    if not len(trained):
        raise UsageError(f"{file} holds held-out examples alone, or none with a label.")
    names = _names(_first(columns, NAME_COLUMNS), rows, trained)
    losses, weights = (_numbers(columns.get(name), name, rows) for name in ("loss", "weight"))

    def kept(column: Sequence[str] | None) -> list[str] | None:
        return None if column is None else [column[row] for row in trained.tolist()]

    texts = _first(columns, TEXT_COLUMNS)
    notes = columns.notes(str(file)) if isinstance(columns, CsvColumns) else ()
    held_out = clean & labelled
    own = ExampleTable(
        student=file.name,
        names=names,
        ids=trained.tolist(),
        given=kept(labels) or [],
        predicted=kept(predicted) or [""] * len(trained),
        true=kept(true),
        losses=losses[trained],
        weights=weights[trained],
        held_out=HeldOutTable(losses[held_out], weights[held_out], False)
        if held_out.any()
        else None,
        texts=None if texts is None else kept([_text(text) for text in texts]),
        computed=False,
        notes=(
            *notes,
            *_of_rows(columns, labelled, rows),
            *_of_classes(labels, predicted, true),
        ),
    )
    if not chances:
        return own
    # with PyTorch, whose import takes longer than all else of a small table
    from tutelage_cli.inspect.own_probabilities import read_probabilities

    found = read_probabilities(columns, labels, rows)
    return found.with_errors(own, trained, np.flatnonzero(held_out))


def _first(columns: Mapping[str, Sequence[Any]], names: Sequence[str]) -> Sequence[Any] | None:
    return next((columns[name] for name in names if name in columns), None)


def _text(value: Any) -> str:
    return "" if value is None or value != value else str(value)


def _classes(column: Sequence[Any]) -> list[str]:
    # a column that lacks some numbers has 1.0 where others have 1
    texts = [_text(value) for value in column]
    different = list(dict.fromkeys(texts))
    names = {}
    for text, label in zip(different, literal(different), strict=True):
        integer = whole_number(name := "" if label is None else str(label))
        names[text] = name if integer is None else str(integer)
    return [names[text] for text in texts]


def _refuse_other_kind(
    given: Sequence[str], others: Sequence[str] | None, name: str, file: Path
) -> None:
    one, two = (set(column) - {""} for column in (given, others or ()))
    numbers = [[whole_number(label) is not None for label in labels] for labels in (one, two)]
    if one and two and not one & two and {all(n) or any(n) for n in numbers} == {True, False}:
        raise UsageError(
            f"{file} has '{min(one)}' for a class under given but '{min(two)}' under {name}: "
            "write classes the same way, as numbers or as names."
        )


def _names(column: Sequence[Any] | None, rows: TableRows, trained: np.ndarray) -> list[str]:
    if column is None:
        called = rows.names()
        return [called[row] for row in trained.tolist()]
    names = [_text(column[row]) for row in trained.tolist()]
    if not all(map(str.strip, names)):
        missing = [
            n for n, name in zip(trained.tolist(), names, strict=True) if not name.strip()
        ]
        raise UsageError(f"{rows.rows_with('no name', missing)}; name these examples.")
    if len(set(names)) < len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        same = [row for row in trained.tolist() if _text(column[row]) == twice[0]]
        raise UsageError(
            f"{rows.rows_with(f'example {twice[0]:.50} twice', same)}; keep one row for each."
        )
    return names


def _flags(column: Sequence[Any] | None, rows: TableRows) -> np.ndarray:
    count = sum(len(numbers) for _, numbers in rows.files)
    texts = [] if column is None else [_text(value) for value in column]
    plain = {text: text.strip().casefold() for text in dict.fromkeys(texts)}
    words = ["false"] * count if column is None else [plain[text] for text in texts]
    if strange := next((word for word in dict.fromkeys(words) if word not in (*YES, *NO)), ""):
        raise UsageError(
            f"{rows.at(words.index(strange))} has {strange!r:.50} under {HELD_OUT_COLUMN}; "
            "allowed: true, false."
        )
    return np.array([word in YES for word in words], dtype=bool)


def _numbers(column: Sequence[Any] | None, name: str, rows: TableRows) -> np.ndarray:
    count = sum(len(numbers) for _, numbers in rows.files)
    values = np.full(count, np.nan)
    for row, value in enumerate(() if column is None else column):
        number = finite(value)
        if number is not None:
            values[row] = number
        elif _text(value).strip().casefold() not in MISSING:
            raise UsageError(
                f"{rows.at(row)} has {value!r:.50} under {name}: something else than numbers "
                "that are finite. Leave empty what is not known."
            )
    return values


def _of_rows(
    columns: Mapping[str, Sequence[Any]], labelled: np.ndarray, rows: TableRows
) -> list[str]:
    notes = []
    if lacking := np.flatnonzero(~labelled).tolist():
        notes.append(f"{rows.rows_with('no label', lacking)}: left out.")
    marks = [_text(value).strip() for value in columns.get(HELD_OUT_COLUMN, ())]
    if any(marks) and (silent := [row for row, mark in enumerate(marks) if not mark]):
        rows_text = rows.rows_with(f"nothing under {HELD_OUT_COLUMN}", silent)
        notes.append(f"{rows_text}: taken as trained on.")
    return notes


def _of_classes(*columns: Sequence[str] | None) -> list[str]:
    names = sorted(set().union(*(column or () for column in columns)) - {""})
    return [
        f"{', '.join(map(repr, same))} {how}, and are classes apart."
        for same, how in alike(names)
    ]
