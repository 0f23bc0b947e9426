"""Local parquet files in the form of the Hugging Face Hub."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tutelage.errors import MissingExtraError, UsageError
from tutelage_cli.data.arrow import (
    IMAGE_COLUMNS,
    ROWS,
    Stored,
    datasets_module,
    declared_classes,
    image_and_label,
    label_kind,
    read_stored,
)
from tutelage_cli.data.assemble import Examples, choose
from tutelage_cli.data.columns import pick, refuse_twice
from tutelage_cli.data.left_out import is_table
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


def open_parquet(path: Path) -> pq.ParquetFile:
    """An open parquet file."""
    with _whole(path):
        file = pq.ParquetFile(path)
    refuse_twice(file.schema_arrow.names, where=str(path))
    return file


def read_rows(path: Path, file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    """Some columns of an open parquet file."""
    with _whole(path):
        found = file.read(list(columns))
        found.validate(full=True)  # texts that are none, for example
    return found


def _batches(path: Path, file: pq.ParquetFile, columns: Sequence[str]) -> Iterator[Any]:
    with _whole(path):
        for batch in file.iter_batches(ROWS, columns=list(columns)):
            batch.validate(full=True)
            yield batch


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    # damage may show where a file is opened, or where its pages are read
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"{path} is not a whole parquet file ({reason}); copy or download it again."
        ) from error


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


def schema_classes(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    """The class names that a file of the Hub declares for a column."""
    if b"huggingface" not in (schema.metadata or {}):
        return None
    return declared_classes(datasets_module().Features.from_arrow_schema(schema)[column])
