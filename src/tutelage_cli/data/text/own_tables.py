"""One's own texts with labels, from csv or Parquet tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.assemble import TEST_NAMES, Found, assemble, choose
from tutelage_cli.data.columns import PATH_COLUMNS, TableRows, numbers, pick
from tutelage_cli.data.csv_files import csv_header, read_csv
from tutelage_cli.data.label_columns import LabelColumn, concatenate_labels, refuse_mixed
from tutelage_cli.data.label_values import literal
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.parquet import (
    IMAGE_COLUMNS,
    LABEL_COLUMNS,
    label_kind,
    parquet_splits,
    refuse_saved,
)
from tutelage_cli.data.parquet_files import open_parquet, read_rows, schema_classes
from tutelage_cli.data.reading import STRICT, Reading, unread_tables
from tutelage_cli.data.tables import table_splits
from tutelage_cli.data.text.labelled import SIDES
from tutelage_cli.data.text.text_set import TextSet

TEXT_COLUMNS = (*SIDES, ("review",), ("comment",), ("content",), ("body",))
"""columns that are known to hold texts, tried in order"""
LABELS = (*LABEL_COLUMNS, "class", "category", "sentiment")
"""columns that are known to hold labels"""


class _Table(NamedTuple):
    parts: Sequence["_File"]

    @property
    def where(self) -> str:
        return self.parts[0].where

    def column(self, wanted: str | None, guesses: Sequence[str], option: str) -> str:
        # raises for a file without it
        found = wanted
        for part in self.parts:
            found = pick(list(part.columns), found, guesses, option=option, where=part.where)
        return found or ""

    def values(self, column: str) -> list[Any]:
        return [value for part in self.parts for value in part.columns.get(column, ())]

    def labels(self, column: str) -> LabelColumn:
        if not self.parts[0].typed:  # a csv file has words alone
            values = literal(self.values(column))
            return LabelColumn(values, self.rows, typed=False)
        refuse_mixed([(part.kinds[column], part.where) for part in self.parts])
        return concatenate_labels([
            LabelColumn(part.columns[column], part.rows, part.classes[column])
            for part in self.parts
        ])

    @property
    def rows(self) -> TableRows:
        return TableRows(tuple((part.where, part.numbers) for part in self.parts))

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(note for part in self.parts for note in part.notes)


class _File(NamedTuple):
    where: str
    columns: Mapping[str, Sequence[Any]]
    numbers: Sequence[int]
    """the spreadsheet's number of each row"""
    notes: tuple[str, ...] = ()
    classes: Mapping[str, tuple[str, ...] | None] = {}
    """the class names that it declares, by column"""
    kinds: Mapping[str, str] = {}
    """what the values would be as labels, by column"""
    typed: bool = False

    @property
    def rows(self) -> TableRows:
        return TableRows(((self.where, self.numbers),))


def text_columns(source: str, wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """The columns of a source that hold its texts."""
    files = _files(Path(source).expanduser())
    if wanted:
        if not files:
            raise UsageError(
                f"--text-column is {' '.join(wanted)}, but {source} is no table on disk: give "
                "a .csv or .parquet file, or a folder of them."
            )
        if len(wanted) > 2:
            raise UsageError(
                f"--text-column names {len(wanted)} columns; allowed: one, or two for pairs."
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
    source: str, columns: Sequence[str], reading: Reading = STRICT
) -> Splits[TextSet]:
    """Texts and labels of a source, as a train and a test part, not yet tokenised.

    The test part is the first of ``test``, ``validation`` and ``val`` that has labels: GLUE
    publishes -1 in their place. Where there is none, a fixed fifth of every class of train is
    held out. An empty text is a text.
    """
    path = Path(source).expanduser().resolve()
    found = _files(path)
    tables = {split: _read(files) for split, files in found.items()}
    train, _ = choose(tables, where=str(path))
    label = train.column(reading.label_column, LABELS, "--label-column")
    tested = next((n for n in TEST_NAMES if _has_labels(tables.get(n), label)), None)
    used = [file for split in ("train", tested or "") for file in found.get(split, ())]

    def examples(table: _Table, notes: tuple[str, ...]) -> Found[TextSet]:
        def build(codes: Tensor, classes: tuple[str, ...]) -> TextSet:
            return _text_set(table, columns, codes, classes, path.name)

        labels = table.labels(table.column(label, (), "--label-column"))
        return Found(labels, build, table.where, notes)

    learned = examples(train, unread_tables(path, used) + train.notes)
    test = None if tested is None else examples(tables[tested], tables[tested].notes)
    return assemble(learned, test, reading)


def text_files(
    source: str, *, label_column: str | None = None
) -> tuple[Sequence[Path], Sequence[Path] | None]:
    """The files of the train part that ``read_own_texts`` reads, and of the test part."""
    path = Path(source).expanduser().resolve()
    found = _files(path)
    train, _ = choose(found, where=str(path))
    label = _read(train).column(label_column, LABELS, "label_column")
    others = {name: _read(found[name]) for name in TEST_NAMES if name in found}
    tested = next((name for name, split in others.items() if _has_labels(split, label)), None)
    return train, None if tested is None else found[tested]


def _files(path: Path) -> Mapping[str, Sequence[Path]]:
    if path.is_file():
        known = path.suffix.casefold() in (".csv", ".parquet")
        return {"train": [path]} if known else {}
    if not path.is_dir():
        return {}
    refuse_saved(path)
    if parquet := parquet_splits(path):
        return parquet
    return {split: [file] for split, file in table_splits(path).items()}


def _header(file: Path) -> Sequence[str]:
    if file.suffix.casefold() == ".csv":
        return csv_header(file)
    return open_parquet(file).schema_arrow.names


def _read(files: Sequence[Path]) -> _Table:
    return _Table([_read_file(file) for file in files])


def _read_file(file: Path) -> _File:
    where = str(file)
    if file.suffix.casefold() == ".csv":
        columns = read_csv(file)
        return _File(where, columns, columns.numbers, columns.notes(where))
    stored = open_parquet(file)
    schema = stored.schema_arrow
    return _File(
        where,
        read_rows(file, stored, schema.names).to_pydict(),
        numbers(stored.metadata.num_rows),
        (),
        {name: schema_classes(schema, name) for name in schema.names},
        {field.name: label_kind(field.type) for field in schema},
        typed=True,
    )


def _has_labels(table: _Table | None, label: str) -> bool:
    values = () if table is None else table.values(label)
    return any(value not in (-1, "-1", "", None) for value in values)


def _text_set(
    table: _Table, columns: Sequence[str], codes: Tensor, classes: tuple[str, ...], name: str
) -> TextSet:
    rows = (codes >= 0).nonzero().flatten()
    sides = tuple(_texts(table, column, rows.tolist()) for column in columns)
    empty = torch.zeros(len(rows), 3, 0, dtype=torch.int32)
    return TextSet(sides, empty, codes[rows], rows, classes, name, sources=table.rows.names())


def _texts(table: _Table, column: str, rows: Sequence[int]) -> tuple[str, ...]:
    values = table.values(table.column(column, (), "--text-column"))
    for part in table.parts:
        if part.typed and part.kinds[column] not in ("words", ""):
            raise UsageError(
                f"column '{column}' of {part.where} is {part.kinds[column]}; allowed: texts. "
                "Name another column with --text-column."
            )
    if odd := [row for row in rows if not isinstance(values[row], str)]:
        raise UsageError(
            f"column '{column}' of {table.rows.rows_with('no text', odd)}; drop these rows, or "
            "name another column with --text-column."
        )
    return tuple(values[row] for row in rows)
