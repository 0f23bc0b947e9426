"""Another set of labels for a known train split, such as those of human annotators."""

from pathlib import Path
from typing import Any

from jaxtyping import Int64
from torch import Tensor

from tutelage.data.classes import encode
from tutelage.data.columns import pick
from tutelage.data.parquet import open_parquet, parquet_splits
from tutelage.data.tables import literal, read_csv
from tutelage.errors import UsageError


def read_labels(
    file: Path, column: str, rows: int, classes: tuple[str, ...]
) -> Int64[Tensor, "N"]:
    """The labels of a column, row by row those of the source's train split.

    A value is the name of a class, or else its number.

    Args:
        file: A .parquet or .csv file, or a folder with one parquet file for the split train.
        column: The column of labels.
        rows: N, how many rows the train split has.
        classes: The names of its classes.

    Returns:
        Class numbers.

    Raises:
        UsageError: If the file or the column is missing, the number of rows differs, or a
            value is no class.
    """
    table = _table_file(file)
    if table.suffix.casefold() == ".parquet":
        values = _parquet_column(table, column)
    else:
        values = _csv_column(table, column, classes)
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
