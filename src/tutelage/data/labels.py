"""Another set of labels for a known train split, such as those of human annotators."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxtyping import Int64
from torch import Tensor

from tutelage.data.by_name import NAME_COLUMNS, read_columns
from tutelage.data.classes import encode
from tutelage.data.columns import pick
from tutelage.data.parquet import open_parquet, parquet_splits
from tutelage.data.tables import literal, read_csv
from tutelage.errors import UsageError


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
    column of names (``by_name.NAME_COLUMNS``); row by row otherwise. A value is the name of a
    class, or else its number.

    Args:
        file: A .parquet or .csv file, or a folder with one parquet file for the split train.
        column: The column of labels.
        rows: N, how many rows the train split has.
        classes: The names of its classes.
        names: What its N examples are called; none to go row by row.

    Returns:
        Class numbers.

    Raises:
        UsageError: If the file or the column is missing, examples or rows are, or a value is no
            class.
    """
    table = _table_file(file)
    if table.suffix.casefold() == ".parquet":
        values = _parquet_column(table, column)
    else:
        values = _csv_column(table, column, classes)
    if names and (called := _names(table)):
        values = _by_name(values, called, names, table)
    if len(values) != rows:
        raise UsageError(
            f"{table} has {len(values)} rows, but the train split has {rows}; give one label "
            "for each of its rows, in their order."
        )
    return encode(values, classes, where=f"column '{column}' of {table}")


def _table_file(file: Path) -> Path:
    if file.is_dir():
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


def _names(file: Path) -> list[str]:
    columns = read_columns(file)
    known = {name.strip().casefold(): name for name in columns}
    column = next((known[name] for name in NAME_COLUMNS if name in known), None)
    texts = [] if column is None else list(columns[column])
    return texts if all(isinstance(text, str) for text in texts) else []


def _by_name(
    values: Sequence[Any], called: Sequence[str], names: Sequence[str], file: Path
) -> list[Any]:
    found = {name.replace("\\", "/"): value for name, value in zip(called, values, strict=True)}
    if len(found) < len(values):
        raise UsageError(f"{file} has several rows of one name; keep one for each example.")
    if missing := [name for name in names if name not in found]:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise UsageError(
            f"{file} has no row for {', '.join(missing[:5])}{more}; add them, or take its "
            "column of names out to go row by row."
        )
    return [found[name] for name in names]


def _parquet_column(file: Path, column: str) -> list[Any]:
    table = open_parquet(file)
    name = _existing(table.schema_arrow.names, column, file)
    return table.read(columns=[name]).column(name).to_pylist()


def _csv_column(file: Path, column: str, classes: tuple[str, ...]) -> list[Any]:
    columns = read_csv(file)
    texts = columns[_existing(list(columns), column, file)]
    named = all(text in classes for text in texts)
    return list(texts) if named else literal(texts)


def _existing(names: list[str], column: str, file: Path) -> str:
    return pick(names, column, (), option="the column of labels", where=str(file))
