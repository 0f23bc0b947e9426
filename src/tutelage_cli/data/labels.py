"""Another set of labels for a known train split, such as those of human annotators."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from jaxtyping import Int64
from torch import Tensor

from tutelage.errors import UsageError, first_few
from tutelage_cli.data.by_name import NAME_COLUMNS, distinct_names, read_columns, rows_of
from tutelage_cli.data.classes import ClassLookup, encode
from tutelage_cli.data.columns import pick
from tutelage_cli.data.label_values import literal
from tutelage_cli.data.parquet import open_parquet, parquet_splits, schema_classes
from tutelage_cli.data.row_numbers import TableRows
from tutelage_cli.data.saved import refuse_saved

_LOG = logging.getLogger(__name__)


def read_labels(
    file: Path,
    column: str,
    rows: int,
    classes: tuple[str, ...],
    *,
    names: Sequence[str] = (),
) -> Int64[Tensor, "N"]:
    """The labels of a column, for the examples of the source's train split.

    They are found by the names of the examples where these have some and the table has a
    column of names (``by_name.NAME_COLUMNS``); row by row otherwise. A word is the name of a
    class. A number is the class that it is the name of; where no class is named by a number, it
    is the place of one.
    """
    table = _table_file(file)
    columns = read_columns(table)
    where = f"column '{column}' of {table}"
    label = pick(list(columns), column, (), option="the column of labels", where=str(table))
    values, declared = columns[label], None
    if table.suffix.casefold() == ".parquet":
        declared = schema_classes(open_parquet(table).schema_arrow, label)
    elif not all(text in classes for text in values):
        values = literal(values)
    stand = TableRows(((where, rows_of(columns, str(table)).files[0][1]),))
    called = next((columns[name] for name in _name_columns(columns)), None)
    if names and called is not None and any(isinstance(text, str) for text in called):
        places = _by_name(distinct_names(called, stand), names, table)
        values = [values[place] for place in places]
        stand = TableRows(((where, [stand.place(place)[1] for place in places]),))
    if len(values) != rows:
        raise UsageError(
            f"{table} has {len(values)} rows, but the train split has {rows}; give one label "
            "for each of its rows, in their order."
        )
    lookup = ClassLookup(classes, places=True, declared=declared)
    return encode(values, classes, where=where, lookup=lookup, rows=stand)


def _table_file(file: Path) -> Path:
    if file.is_dir():
        refuse_saved(file)
        files = parquet_splits(file).get("train", [])
        if len(files) == 1:
            return files[0]
        raise UsageError(
            f"{file} holds {len(files)} parquet files for the split train; allowed: one, or "
            "give the path of the file itself."
        )
    if not file.is_file():
        raise UsageError(f"there is no file {file}; give a .parquet or .csv file of labels.")
    if file.suffix.casefold() not in (".parquet", ".csv"):
        raise UsageError(
            f"labels cannot be read from {file}; allowed: a .parquet or .csv file."
        )
    return file


def _name_columns(columns: Iterable[str]) -> list[str]:
    known = {name.strip().casefold(): name for name in columns}
    return [known[name] for name in NAME_COLUMNS if name in known]


def _by_name(called: Sequence[str], names: Sequence[str], file: Path) -> list[int]:
    found = {name: place for place, name in enumerate(called)}
    if missing := [name for name in names if name not in found]:
        raise UsageError(
            f"{file} has no row for {first_few(missing)}; add them, or take its column of "
            "names out to go row by row."
        )
    if others := sorted(found.keys() - set(names)):
        _LOG.warning(
            "%s: %d rows are about no training example and left out (%s).",
            file,
            len(others),
            first_few(others),
        )
    return [found[name] for name in names]
