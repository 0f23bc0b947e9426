"""One's own texts with labels, from csv or Parquet tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tutelage.data.arrow import IMAGE_COLUMNS, LABEL_COLUMNS
from tutelage.data.assemble import TEST_NAMES, about_classes, choose
from tutelage.data.classes import class_names, encode, listed, unlabelled
from tutelage.data.columns import pick
from tutelage.data.parquet import open_parquet, parquet_splits, schema_classes
from tutelage.data.reading import STRICT, Reading
from tutelage.data.splits import held_out_rows
from tutelage.data.tables import PATH_COLUMNS, literal, read_csv, table_splits
from tutelage.data.text.labelled import SIDES
from tutelage.data.text.text_set import TextParts, TextSet
from tutelage.errors import UsageError

TEXT_COLUMNS = (*SIDES, ("review",), ("comment",), ("content",), ("body",))
"""columns that are known to hold texts, tried in order"""
LABELS = (*LABEL_COLUMNS, "class", "category", "sentiment")
"""columns that are known to hold labels"""


class _Table(NamedTuple):
    where: str
    columns: Mapping[str, Sequence[Any]]
    classes: Mapping[str, tuple[str, ...] | None]
    """the class names that it declares, by column"""

    def column(self, wanted: str | None, guesses: Sequence[str], option: str) -> str:
        return pick(list(self.columns), wanted, guesses, option=option, where=self.where)

    def labels(self, wanted: str | None) -> Sequence[Any]:
        values = self.columns[self.column(wanted, LABELS, "label_column")]
        return values if self.classes else literal(values)  # a csv file has words alone


def text_columns(source: str, wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """The columns of a source that hold its texts.

    Args:
        source: A csv or Parquet file, a folder of such, or anything else.
        wanted: The columns asked for; none to guess.

    Returns:
        One or two; none where the source is no table, has a column that is known to hold
        images, or none that is known to hold texts.

    Raises:
        UsageError: If columns are asked for and the source is no table on disk, or there are
            more than two.
    """
    files = _files(Path(source).expanduser())
    if wanted:
        if not files:
            raise UsageError(
                f"text_column is {' '.join(wanted)}, but {source} is no table on disk: give a "
                ".csv or .parquet file, or a folder of them."
            )
        if len(wanted) > 2:
            raise UsageError(
                f"text_column names {len(wanted)} columns; allowed: one, or two for pairs."
            )
        return tuple(wanted)
    if not files:
        return ()
    names = _header(next(iter(files.values()))[0])
    spelled = {name.strip().casefold(): name for name in reversed(names)}
    if any(name in spelled for name in (*IMAGE_COLUMNS, *PATH_COLUMNS)):
        return ()
    known = next((side for side in TEXT_COLUMNS if set(side) <= set(spelled)), ())
    return tuple(spelled[name] for name in known)


def read_own_texts(
    source: str,
    columns: Sequence[str],
    *,
    label_column: str | None = None,
    reading: Reading = STRICT,
) -> TextParts:
    """Texts and labels of a source, as a train and a test part, not yet tokenised.

    The test part is the first of ``test``, ``validation`` and ``val`` that has labels: GLUE
    publishes -1 in their place. Where there is none, a fixed fifth of every class of train is
    held out. An empty text is a text.

    Args:
        source: A csv or Parquet file, or a folder of such.
        columns: As ``text_columns`` gives them.
        label_column: None to guess.
        reading: What becomes of rows without a label; the rest of it is about images.

    Returns:
        Both parts.

    Raises:
        UsageError: If a file is broken, a column, a text or a label is missing, or there are
            fewer than two classes.
    """
    path = Path(source).expanduser().resolve()
    tables = {split: _read(files) for split, files in _files(path).items()}
    train, _ = choose(tables, where=str(path))
    label = train.column(label_column, LABELS, "label_column")
    test = next((tables[n] for n in TEST_NAMES if _has_labels(tables.get(n), label)), None)
    values = train.labels(label)
    without = set(unlabelled(values, reading))
    told = [value for row, value in enumerate(values) if row not in without]
    if not told:
        raise UsageError(f"{train.where} holds no text with a label; give a table with some.")
    classes = train.classes.get(label) or class_names(told)
    learned, notes = _text_set(train, columns, label, classes, path.name, reading)
    if len(classes) < 2:
        raise UsageError(
            f"{train.where} has one class only ('{', '.join(classes)}'); give two or more."
        )
    notes += about_classes(learned.labels, classes)
    if test is None:
        kept, tested = held_out_rows(learned.labels, len(classes), name=learned.name)
        return TextParts(learned.rows(kept), learned.rows(tested), notes)
    tried, more = _text_set(test, columns, label, classes, path.name, reading)
    return TextParts(learned, tried, notes + more)


def _files(path: Path) -> Mapping[str, Sequence[Path]]:
    if path.is_file():
        known = path.suffix.casefold() in (".csv", ".parquet")
        return {"train": [path]} if known else {}
    if not path.is_dir():
        return {}
    if parquet := parquet_splits(path):
        return parquet
    return {split: [file] for split, file in table_splits(path).items()}


def _header(file: Path) -> Sequence[str]:
    if file.suffix.casefold() == ".csv":
        return list(read_csv(file))
    return open_parquet(file).schema_arrow.names


def _read(files: Sequence[Path]) -> _Table:
    where = str(files[0])
    if files[0].suffix.casefold() == ".csv":
        return _Table(where, read_csv(files[0]), {})
    parts = [open_parquet(file) for file in files]
    schema = parts[0].schema_arrow
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for part in parts:
        for name, values in part.read(schema.names).to_pydict().items():
            columns[name] += values
    return _Table(where, columns, {name: schema_classes(schema, name) for name in columns})


def _has_labels(table: _Table | None, label: str) -> bool:
    values = () if table is None else table.columns.get(label, ())
    return any(value not in (-1, "-1", "", None) for value in values)


def _text_set(
    table: _Table,
    columns: Sequence[str],
    label: str,
    classes: tuple[str, ...],
    name: str,
    reading: Reading,
) -> tuple[TextSet, tuple[str, ...]]:
    values = table.labels(label)
    without = unlabelled(values, reading)
    labels = encode(values, classes, where=table.where, left_out=without)
    rows = (labels >= 0).nonzero().flatten()
    sides = tuple(_texts(table, column, rows.tolist()) for column in columns)
    told = f"{table.where} has no label in {listed(without)}: left out." if without else ""
    empty = torch.zeros(len(rows), 3, 0, dtype=torch.int32)
    made = TextSet(sides, empty, labels[rows], rows, classes, name)
    return made, (told,) if told else ()


def _texts(table: _Table, column: str, rows: Sequence[int]) -> tuple[str, ...]:
    values = table.columns[table.column(column, (), "text_column")]
    if odd := [row for row in rows if not isinstance(values[row], str)]:
        raise UsageError(
            f"column '{column}' of {table.where} has no text in {listed(odd)}; drop these "
            "rows, or name another column with text_column."
        )
    return tuple(values[row] for row in rows)
