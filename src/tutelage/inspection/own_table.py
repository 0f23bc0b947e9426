"""A table of examples from a loop of one's own, such as of texts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tutelage.data.by_name import NAME_COLUMNS, read_columns
from tutelage.data.classes import literal
from tutelage.errors import UsageError
from tutelage.inspection.opinions import Judges, Opinions

GIVEN_COLUMNS = ("given", "label")
TEXT_COLUMNS = ("text", "sentence", "sentence1")
HELD_OUT_COLUMN = "held_out"
YES, NO = ("true", "1", "1.0", "yes"), ("false", "0", "0.0", "no", "", "none")


def read_own(file: Path) -> Opinions:
    """Read a table with a row for each example.

    Args:
        file: Parquet or CSV: ``given`` (or ``label``) with ``loss`` or ``weight`` or both, and
            where there are such: ``name`` (or ``path``), ``predicted``, ``true``, empty where
            that is not known, ``text`` (or ``sentence``), and ``held_out``, true for examples
            that were not trained on and whose labels are right.

    Returns:
        What its one student says.

    Raises:
        UsageError: If it lacks what is needed, or a value is no number.
    """
    columns = read_columns(file)
    rows = len(next(iter(columns.values()), ()))
    given = _first(columns, GIVEN_COLUMNS)
    if given is None or not {"loss", "weight"} & columns.keys() or not rows:
        raise UsageError(
            f"{file} is no table of examples: it needs a column {' or '.join(GIVEN_COLUMNS)}, "
            f"and loss or weight, with a row for each; it has {', '.join(columns) or 'none'}."
        )
    clean = _flags(columns.get(HELD_OUT_COLUMN), rows, file)
    trained = np.flatnonzero(~clean)
    if not len(trained):
        raise UsageError(f"{file} holds held-out examples alone.")
    names = _first(columns, NAME_COLUMNS) or range(rows)
    losses, weights = (_numbers(columns.get(name), rows, file) for name in ("loss", "weight"))

    def kept(column: Sequence[Any] | None) -> list[str] | None:
        return None if column is None else [_text(column[row]) for row in trained.tolist()]

    predicted, true = columns.get("predicted"), columns.get("true")
    given, predicted, true = _alike(given, predicted, true)
    labels = kept(given) or []
    opinions = Opinions(
        student=file.name,
        names=kept(names) or [],
        ids=trained.tolist(),
        given=labels,
        predicted=kept(predicted) or [""] * len(labels),
        true=kept(true),
        losses=losses[trained],
        weights=weights[trained],
        held_out=Judges(losses[clean], weights[clean]) if clean.any() else None,
        texts=kept(_first(columns, TEXT_COLUMNS)),
    )
    if len(set(opinions.names)) < len(opinions.names):
        raise UsageError(f"{file} names an example twice; keep one row for each.")
    return opinions


def _first(columns: Mapping[str, Sequence[Any]], names: Sequence[str]) -> Sequence[Any] | None:
    return next((columns[name] for name in names if name in columns), None)


def _text(value: Any) -> str:
    return "" if value is None or value != value else str(value)


def _alike(*columns: Sequence[Any] | None) -> list[Sequence[Any] | None]:
    """Spell classes the same: a column that lacks some numbers has 1.0 where others have 1.

    Returns:
        The columns.
    """
    spelled = iter(literal([_text(v) for column in columns for v in column or ()]))
    return [None if column is None else [next(spelled) for _ in column] for column in columns]


def _flags(column: Sequence[Any] | None, rows: int, file: Path) -> np.ndarray:
    words = (
        ["false"] * rows if column is None else [_text(value).casefold() for value in column]
    )
    strange = next((word for word in words if word not in (*YES, *NO)), None)
    if strange is not None:
        raise UsageError(f"{file}: {HELD_OUT_COLUMN} is {strange!r:.50}; allowed: true, false.")
    return np.array([word in YES for word in words], dtype=bool)


def _numbers(column: Sequence[Any] | None, rows: int, file: Path) -> np.ndarray:
    if column is None:
        return np.full(rows, np.nan)
    try:
        return np.array([np.nan if v in (None, "") else float(v) for v in column])
    except (TypeError, ValueError) as error:
        raise UsageError(f"{file} has something else than numbers: {error!s:.100}.") from error
