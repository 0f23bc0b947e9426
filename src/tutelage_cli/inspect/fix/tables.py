"""Tables of the training data written again, row by row, with other labels."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from tutelage.errors import UsageError, in_one_line
from tutelage.storage.atomic_files import write_atomically
from tutelage_cli.data.csv_files import read_csv
from tutelage_cli.data.parquet_files import open_parquet, read_rows, schema_classes


class CsvTable:
    """A CSV file."""

    def __init__(self, file: Path) -> None:
        self._columns = read_csv(file)

    @property
    def names(self) -> Sequence[str]:
        """The columns."""
        return list(self._columns)

    def column(self, name: str) -> Sequence[str]:
        """The values of a column, as they are written."""
        return self._columns[name]

    def declared(self, name: str) -> bool:  # noqa: ARG002 - a CSV file declares nothing
        """Whether numbers of a column are places of names: never."""
        return False

    def write(
        self, stem: Path, rows: Sequence[int], changed: Mapping[str, Sequence[Any]]
    ) -> None:
        """Write some rows, with other values in some columns, as STEM.csv."""
        kept = {name: [column[row] for row in rows] for name, column in self._columns.items()}
        write_csv(stem.with_name(f"{stem.name}.csv"), kept | dict(changed))


class ParquetTable:
    """Parquet files that follow one another."""

    def __init__(self, files: Sequence[Path]) -> None:
        opened = [open_parquet(file) for file in files]
        parts = [
            read_rows(file, opened_file, opened_file.schema_arrow.names)
            for file, opened_file in zip(files, opened, strict=True)
        ]
        try:
            schema = parts[0].schema
            parts[1:] = [p.select(schema.names).cast(schema) for p in parts[1:]]
            self._table = pa.concat_tables(parts)
        except (pa.ArrowException, KeyError) as error:
            raise UsageError(
                f"{files[0]} and files beside it have other columns each "
                f"({in_one_line(error)}), and cannot be written as one: bring them to the same."
            ) from error

    @property
    def names(self) -> Sequence[str]:
        """The columns."""
        return self._table.schema.names

    def column(self, name: str) -> Sequence[Any]:
        """The values of a column."""
        return self._table[name].to_pylist()

    def declared(self, name: str) -> bool:
        """Whether numbers of a column are places of names that the files declare."""
        return schema_classes(self._table.schema, name) is not None

    def write(
        self, stem: Path, rows: Sequence[int], changed: Mapping[str, Sequence[Any]]
    ) -> None:
        """Write some rows as STEM.parquet of the same schema; see ``CsvTable``."""
        kept = self._table.take(list(rows))
        for name, values in changed.items():
            place = kept.schema.get_field_index(name)
            field = kept.schema.field(place)
            kept = kept.set_column(place, field, pa.array(list(values), type=field.type))
        pq.write_table(kept, stem.with_name(f"{stem.name}.parquet"))


Table = CsvTable | ParquetTable


def write_csv(file: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns as a CSV file in UTF-8."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)  # of any other end of lines, a carriage return is not quoted
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    try:
        write_atomically(file, text.getvalue().encode())
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{error.object[error.start : error.end]!r:.50} of a name or text is no Unicode, "
            "which a CSV file cannot hold: rename the file."
        ) from error


def raw_labels(
    column: Sequence[Any], ids: Tensor, codes: Tensor, classes: Sequence[str], *, declared: bool
) -> list[Any]:
    """What a table writes for each class: as in its first row of that class."""
    found: dict[int, Any] = {}
    for row, code in zip(ids.tolist(), codes.tolist(), strict=True):
        found.setdefault(code, column[row])
    numbers = all(isinstance(value, int | float) for value in found.values())

    def otherwise(code: int) -> Any:
        if declared and numbers:
            return code
        return int(classes[code]) if numbers and classes[code].isdecimal() else classes[code]

    return [found.get(code, otherwise(code)) for code in range(len(classes))]
