"""From Arrow tables, as the Hugging Face Hub lays them out, to decoded images and labels."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tutelage.data.assemble import Examples
from tutelage.data.columns import pick
from tutelage.data.gather import gather
from tutelage.data.reading import Reading
from tutelage.errors import MissingExtraError

try:
    import datasets
except ImportError as error:
    raise MissingExtraError("datasets", "train") from error

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "fine_label", "labels", "target")
ROWS = 1000
"""rows to read at a time"""


def image_and_label(
    names: Sequence[str], image: str | None, label: str | None, *, where: str
) -> tuple[str, str]:
    """The columns of images and of labels.

    It is a UsageError if the table lacks one.

    Args:
        names: The columns that the table has.
        image: The column asked for; None to guess.
        label: None to guess.
        where: The table, for the message.

    Returns:
        Two of ``names``.
    """
    return (
        pick(names, image, IMAGE_COLUMNS, option="image_column", where=where),
        pick(names, label, LABEL_COLUMNS, option="label_column", where=where),
    )


def declared_classes(feature: Any) -> tuple[str, ...] | None:
    """The class names that a column declares.

    Args:
        feature: The column's feature.

    Returns:
        The names in order of their numbers; None for anything but a ClassLabel.
    """
    return tuple(feature.names) if isinstance(feature, datasets.ClassLabel) else None


def read_batches(
    batches: Iterable[Any],
    columns: tuple[str, str],
    count: int,
    classes: tuple[str, ...] | None,
    reading: Reading,
    *,
    where: str,
    root: Path,
) -> Examples:
    """The images and labels of Arrow tables that follow one another.

    It is a UsageError if there are no rows, or an image cannot be read.

    Args:
        batches: Arrow tables or record batches.
        columns: That of the images and that of the labels.
        count: The rows of all together.
        classes: The class names that the source declares, or None.
        reading: What becomes of broken images.
        where: The split, for messages.
        root: The folder that paths of images start from.

    Returns:
        One split.
    """
    labels: list[Any] = []
    names: list[str] = []

    def pictures() -> Iterator[tuple[str, Any]]:
        for batch in batches:
            start = len(labels)
            labels.extend(batch.column(columns[1]).to_pylist())
            for row, stored in enumerate(batch.column(columns[0]).to_pylist(), start):
                path = stored.get("path") if isinstance(stored, Mapping) else None
                names.append(str(path or f"row {row}"))
                yield f"row {row} of {where}", stored

    images, rows, notes = gather(pictures(), count, reading, where=where, root=root)
    return Examples(images, labels, classes, where, rows, tuple(names), notes)
