"""From Arrow tables, as the Hugging Face Hub lays them out, to decoded images and labels."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tutelage.errors import MissingExtraError
from tutelage_cli.data.assemble import Examples
from tutelage_cli.data.columns import pick
from tutelage_cli.data.gather import gather
from tutelage_cli.data.label_columns import LabelColumn, joined, refuse_mixed
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.row_numbers import COUNTED, FIRST, TableRows

try:
    import pyarrow as pa
except ImportError as error:
    raise MissingExtraError("pyarrow", "train") from error

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "fine_label", "labels", "target")
ROWS = 1000
"""rows to read at a time"""


def image_and_label(
    names: Sequence[str], image: str | None, label: str | None, *, where: str
) -> tuple[str, str]:
    """The columns of images and of labels.

    It is a UsageError if the table lacks one.
    """
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
    if any(of(kind) for of in texts):
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
    """The images and labels of Arrow tables that follow one another.

    It is a UsageError if there are no rows, the tables differ in what their labels are, or an
    image cannot be read.
    """
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
    column = joined([
        LabelColumn(found, TableRows.of(part.where, part.count), part.declared)
        for part, found in zip(parts, labels, strict=True)
    ])
    return Examples(
        images, column.values, column.declared, rows.where, kept, tuple(names), notes, rows
    )
