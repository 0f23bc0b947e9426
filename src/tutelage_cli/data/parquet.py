"""Local parquet files in the form of the Hugging Face Hub."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tutelage.errors import MissingExtraError
from tutelage_cli.data.arrow import (
    IMAGE_COLUMNS,
    ROWS,
    Stored,
    image_and_label,
    label_kind,
    read_stored,
)
from tutelage_cli.data.assemble import Examples, choose
from tutelage_cli.data.columns import pick
from tutelage_cli.data.left_out import is_table
from tutelage_cli.data.parquet_files import open_parquet, schema_classes, whole_file
from tutelage_cli.data.reading import STRICT, Reading

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise MissingExtraError("pyarrow", "train") from error

_SPLIT = re.compile(r"(train|test|validation|val)(?:[-.].*)?", re.IGNORECASE)


def read_parquet(
    files: Mapping[str, Sequence[Path]],
    *,
    image_column: str | None,
    label_column: str | None,
    reading: Reading = STRICT,
) -> tuple[Examples, Examples | None]:
    """The splits of parquet files in the form of the Hub.

    It is a UsageError if there is no train split, a file is broken, or a column is missing.
    """
    folder = next(iter(files.values()))[0].parent
    train, test = choose(files, where=str(folder))

    def stored(path: Path) -> Stored:
        file = open_parquet(path)
        schema, where = file.schema_arrow, str(path)
        columns = image_and_label(schema.names, image_column, label_column, where=where)
        return Stored(
            _batches(path, file, columns),
            columns,
            file.metadata.num_rows,
            schema_classes(schema, columns[1]),
            label_kind(schema.field(columns[1]).type),
            where,
        )

    def examples(paths: Sequence[Path]) -> Examples:
        return read_stored([stored(path) for path in paths], reading, root=folder)

    return examples(train), None if test is None else examples(test)


def parquet_splits(folder: Path) -> dict[str, list[Path]]:
    """The parquet files in a folder (or in its folder ``data``) by split.

    A file belongs to the split that its name begins with: ``train-00000-of-00002.parquet``,
    ``test.parquet``. Where no name begins with a split, all files are the train split. Hidden
    ones do not count.
    """
    for place in (folder, folder / "data"):
        files = sorted(place.iterdir()) if place.is_dir() else []
        files = [path for path in files if is_table(path, ".parquet")]
        splits: dict[str, list[Path]] = {}
        for path in files:
            if match := _SPLIT.fullmatch(path.stem):
                splits.setdefault(match[1].casefold(), []).append(path)
        if files:
            return splits or {"train": files}
    return {}


def parquet_files(
    files: Mapping[str, Sequence[Path]], *, image_column: str | None
) -> list[Path]:
    """The files that :func:`read_parquet` takes images and labels from.

    It is a UsageError if there is no train split, a file is broken, or the column is missing.
    """
    train, test = choose(files, where=str(next(iter(files.values()))[0].parent))
    read = [*train, *(test or ())]
    return read if all(_holds_images(path, image_column) for path in read) else []


def _batches(path: Path, file: pq.ParquetFile, columns: Sequence[str]) -> Iterator[Any]:
    with whole_file(path):
        for batch in file.iter_batches(ROWS, columns=list(columns)):
            batch.validate(full=True)
            yield batch


def _holds_images(path: Path, image_column: str | None) -> bool:
    # Bytes in every row, according to the file's statistics.
    file = open_parquet(path)
    names, leaves = file.schema_arrow.names, file.metadata.schema
    column = pick(names, image_column, IMAGE_COLUMNS, option="--image-column", where=str(path))
    struct = pa.types.is_struct(file.schema_arrow.field(names.index(column)).type)
    wanted = f"{column}.bytes" if struct else column
    places = [
        place
        for place in range(len(leaves))
        if leaves.column(place).path == wanted
        and leaves.column(place).logical_type.type != "STRING"
    ]
    statistics = [
        file.metadata.row_group(group).column(place).statistics
        for group in range(file.metadata.num_row_groups)
        for place in places
    ]
    return bool(places) and all(
        known is not None and known.null_count == 0 for known in statistics
    )
