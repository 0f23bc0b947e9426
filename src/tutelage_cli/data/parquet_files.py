"""Parquet files: opened, read, and the classes that they declare."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tutelage.errors import MissingExtraError, UsageError, in_one_line
from tutelage_cli.data.columns import refuse_twice

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise MissingExtraError("pyarrow", "train") from error


def open_parquet(path: Path) -> pq.ParquetFile:
    """An open parquet file."""
    with whole_file(path):
        file = pq.ParquetFile(path)
    refuse_twice(file.schema_arrow.names, where=str(path))
    return file


def read_rows(path: Path, file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    """Some columns of an open parquet file."""
    with whole_file(path):
        found = file.read(list(columns))
        found.validate(full=True)  # texts that are none, for example
    return found


@contextmanager
def whole_file(path: Path) -> Iterator[None]:
    """Report damage, which may show where a file is opened or where its pages are read."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise UsageError(
            f"{path} is not a whole parquet file ({in_one_line(error)}); copy or download it "
            "again."
        ) from error


def schema_classes(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    """The class names that a file of the Hub declares for a column."""
    if b"huggingface" not in (schema.metadata or {}):
        return None
    return declared_classes(datasets_module().Features.from_arrow_schema(schema)[column])


def declared_classes(feature: Any) -> tuple[str, ...] | None:
    """The class names that a column declares."""
    label = datasets_module().ClassLabel
    return tuple(feature.names) if isinstance(feature, label) else None


def datasets_module() -> Any:
    """The package ``datasets``, whose import takes seconds that only files of the Hub need."""
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("datasets", "train") from error
    return datasets
