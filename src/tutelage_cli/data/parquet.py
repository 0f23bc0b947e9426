"""Arrow tables and parquet files, as the Hugging Face Hub lays them out."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tutelage.errors import MissingExtraError, UsageError
from tutelage_cli.data.assemble import Examples, choose
from tutelage_cli.data.columns import COUNTED, FIRST, TableRows, pick
from tutelage_cli.data.decode import gather
from tutelage_cli.data.label_columns import LabelColumn, concatenate_labels, refuse_mixed
from tutelage_cli.data.parquet_files import open_parquet, schema_classes, whole_file
from tutelage_cli.data.reading import STRICT, Reading, is_table

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise MissingExtraError("pyarrow", "train") from error

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "fine_label", "labels", "target")
ROWS = 1000
"""rows to read at a time"""
_OF_ONE, _OF_SEVERAL = ("state.json", "dataset_info.json"), "dataset_dict.json"
_SPLIT = re.compile(r"(train|test|validation|val)(?:[-.].*)?", re.IGNORECASE)


def image_and_label(names: Sequence[str], reading: Reading, *, where: str) -> tuple[str, str]:
    """The columns of images and of labels."""
    image, label = reading.image_column, reading.label_column
    return (
        pick(names, image, IMAGE_COLUMNS, option="--image-column", where=where),
        pick(names, label, LABEL_COLUMNS, option="--label-column", where=where),
    )


def label_kind(kind: pa.DataType) -> str:
    """What the labels of a column are, in words."""
    if pa.types.is_dictionary(kind):
        return label_kind(kind.value_type)
    if pa.types.is_null(kind):
        return ""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "numbers"
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if any(is_kind(kind) for is_kind in texts):
        return "words"
    return "true or false" if pa.types.is_boolean(kind) else f"of type {kind}"


@dataclass(frozen=True)
class Stored:
    """An Arrow table of images and labels, not yet read."""

    batches: Iterable[Any]
    """Arrow tables or record batches that follow one another"""
    columns: tuple[str, str]
    """that of the images and that of the labels"""
    count: int
    """the rows of all together"""
    declared: tuple[str, ...] | None
    """the class names that it declares, or None"""
    kind: str
    """of its labels, see ``label_kind``"""
    where: str
    """the file or split, for messages"""


def read_stored(parts: Sequence[Stored], reading: Reading, *, root: Path) -> Examples:
    """The images and labels of Arrow tables that follow one another."""
    refuse_mixed([(part.kind, part.where) for part in parts])
    rows = TableRows(tuple(TableRows.of(part.where, part.count).files[0] for part in parts))
    called = rows.names()
    labels: list[list[Any]] = [[] for _ in parts]
    names: list[str] = []

    def pictures() -> Iterator[tuple[str, Any]]:
        for part, found in zip(parts, labels, strict=True):
            numbers = count(FIRST)
            for batch in part.batches:
                found.extend(batch.column(part.columns[1]).to_pylist())
                for stored in batch.column(part.columns[0]).to_pylist():
                    path = stored.get("path") if isinstance(stored, Mapping) else None
                    names.append(str(path or called[len(names)]))
                    yield f"row {next(numbers)} {COUNTED} of {part.where}", stored

    images, kept, notes = gather(pictures(), len(called), reading, where=rows.where, root=root)
    column = concatenate_labels([
        LabelColumn(found, TableRows.of(part.where, part.count), part.declared)
        for part, found in zip(parts, labels, strict=True)
    ])
    return Examples(
        images, column.values, column.declared, rows.where, kept, tuple(names), notes, rows
    )


def refuse_saved(folder: Path) -> None:
    """Refuse a folder of ``Dataset.save_to_disk`` or ``DatasetDict.save_to_disk``."""
    several = (folder / _OF_SEVERAL).is_file()
    if not several and not all((folder / name).is_file() for name in _OF_ONE):
        return
    saved = f"datasets.load_from_disk({str(folder)!r})"
    export = (
        f"for name, part in {saved}.items(): part.to_parquet(f'FOLDER/{{name}}.parquet')"
        if several
        else f"{saved}.to_parquet('FOLDER/train.parquet')"
    )
    raise UsageError(
        f"{folder} was written by save_to_disk of datasets, which is read by load_from_disk "
        f"alone. Export it as Parquet and give that folder: {export}"
    )


def read_parquet(
    files: Mapping[str, Sequence[Path]], reading: Reading = STRICT
) -> tuple[Examples, Examples | None]:
    """The splits of parquet files in the form of the Hub."""
    folder = next(iter(files.values()))[0].parent
    train, test = choose(files, where=str(folder))

    def stored(path: Path) -> Stored:
        file = open_parquet(path)
        schema, where = file.schema_arrow, str(path)
        columns = image_and_label(schema.names, reading, where=where)
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


def parquet_of(path: Path) -> dict[str, list[Path]]:
    """The Parquet files of a path by split, if it is or holds some."""
    if path.is_dir():
        return parquet_splits(path)
    return {"train": [path]} if path.suffix.casefold() == ".parquet" and path.is_file() else {}


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


def parquet_files(files: Mapping[str, Sequence[Path]], reading: Reading = STRICT) -> list[Path]:
    """The files that :func:`read_parquet` takes images and labels from."""
    train, test = choose(files, where=str(next(iter(files.values()))[0].parent))
    read = [*train, *(test or ())]
    return read if all(_holds_images(path, reading.image_column) for path in read) else []


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
