"""The columns of a table with a row for each example."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tutelage.errors import UsageError
from tutelage_cli.data.columns import TableRows
from tutelage_cli.data.csv_files import CsvColumns, read_csv
from tutelage_cli.data.parquet_files import open_parquet, read_rows, schema_classes

HIGHEST = float(np.finfo(np.float32).max)


def rows_of(columns: Mapping[str, Sequence[Any]], where: str) -> TableRows:
    """Where the rows of a table are."""
    if isinstance(columns, CsvColumns):
        return columns.rows(where)
    return TableRows.of(where, len(next(iter(columns.values()), ())))


def read_columns(file: Path) -> Mapping[str, Sequence[Any]]:
    """All columns of a Parquet or CSV file but those of images."""
    if not file.is_file() or file.suffix.casefold() not in (".parquet", ".csv"):
        raise UsageError(f"there is no table {file}; give a .parquet or .csv file.")
    if file.suffix.casefold() == ".csv":
        return read_csv(file)
    stored = open_parquet(file)
    kept = [field.name for field in stored.schema_arrow if not _holds_bytes(field.type)]
    found = read_rows(file, stored, kept).to_pydict()
    for name in kept:
        if classes := schema_classes(stored.schema_arrow, name):
            found[name] = [
                classes[label]
                if isinstance(label, int) and 0 <= label < len(classes)
                else label
                for label in found[name]
            ]
    return found


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_holds_bytes(field.type) for field in kind)
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def distinct_names(column: Sequence[Any], rows: TableRows) -> list[str]:
    """What a column calls examples, backslashes of paths as slashes."""
    missing = [row for row, text in enumerate(column) if text is None or not str(text).strip()]
    if missing:
        raise UsageError(f"{rows.rows_with('no name', missing)}; name these examples.")
    names = [str(text).replace("\\", "/") for text in column]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        same = [row for row, name in enumerate(names) if name == twice[0]]
        raise UsageError(
            f"{rows.rows_with(f'several rows of {twice[0]}', same)}; keep one for each example."
        )
    return names


def finite(value: Any) -> float | None:
    """A number that single precision can hold."""
    if isinstance(value, str) and "_" in value:  # Python's own way of writing numbers
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) <= HIGHEST else None
