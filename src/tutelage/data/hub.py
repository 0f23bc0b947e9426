"""Data sets of the Hugging Face Hub, and local folders of parquet files in its form."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tutelage.data.assemble import Examples, choose
from tutelage.data.columns import pick
from tutelage.data.decode import decode, stack
from tutelage.errors import MissingExtraError, UsageError

try:
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq
    from datasets.config import HF_DATASETS_CACHE
    from datasets.exceptions import DatasetsError
    from datasets.utils import logging as datasets_logging
    from huggingface_hub import HfApi

    # What the client's own HTTP library raises: httpx, or another in other versions.
    from huggingface_hub.errors import HTTPError  # pyright: ignore[reportPrivateImportUsage]
except ImportError as error:
    raise MissingExtraError("datasets", "train") from error

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "fine_label", "labels", "target")
_SPLIT = re.compile(r"(train|test|validation|val)(?:[-.].*)?", re.IGNORECASE)
_ROWS = 1000
"""rows read at a time"""


def read_hub(
    identity: str, config: str | None, *, image_column: str | None, label_column: str | None
) -> tuple[Examples, Examples | None]:
    """The splits of a data set on the Hub, or of its copy in the local cache.

    Args:
        identity: Such as ``cifar10`` or ``owner/name``.
        config: The data set's configuration; None for its only or default one.
        image_column: None to guess.
        label_column: None to guess.

    Returns:
        The train split, and the test split or None.

    Raises:
        UsageError: If the data set cannot be loaded, has no train split, or lacks a column.
    """
    splits = _download(identity, config)
    if not isinstance(splits, datasets.DatasetDict):
        raise UsageError(f"the data set '{identity}' has no splits; allowed: a train split.")
    train, test = choose({str(name): part for name, part in splits.items()}, where=identity)

    def examples(part: datasets.Dataset) -> Examples:
        columns = _columns(part.column_names, image_column, label_column, identity)
        batches = part.select_columns(list(columns)).with_format("arrow").iter(_ROWS)
        where = f"split {part.split} of {identity}"
        names = _class_names(part.features[columns[1]])
        return _read(batches, columns, len(part), names, where=where, root=Path())

    return examples(train), None if test is None else examples(test)


def read_parquet(
    files: Mapping[str, Sequence[Path]], *, image_column: str | None, label_column: str | None
) -> tuple[Examples, Examples | None]:
    """The splits of parquet files in the form of the Hub.

    It is a UsageError if there is no train split, a file is broken, or a column is missing.

    Args:
        files: The files of each split, as :func:`parquet_splits` finds them.
        image_column: None to guess.
        label_column: None to guess.

    Returns:
        The train split, and the test split or None.
    """
    folder = next(iter(files.values()))[0].parent
    train, test = choose(files, where=str(folder))

    def examples(paths: Sequence[Path]) -> Examples:
        parts = [open_parquet(path) for path in paths]
        schema = parts[0].schema_arrow
        columns = _columns(schema.names, image_column, label_column, str(paths[0]))
        batches = (
            batch for part in parts for batch in part.iter_batches(_ROWS, columns=columns)
        )
        count = sum(part.metadata.num_rows for part in parts)
        names = _declared_classes(schema, columns[1])
        return _read(batches, columns, count, names, where=str(paths[0]), root=folder)

    return examples(train), None if test is None else examples(test)


def parquet_splits(folder: Path) -> dict[str, list[Path]]:
    """The parquet files in a folder (or in its folder ``data``) by split.

    A file belongs to the split that its name begins with: ``train-00000-of-00002.parquet``,
    ``test.parquet``. Where no name begins with a split, all files are the train split.

    Args:
        folder: An existing folder.

    Returns:
        Files in order of their names; empty where there are none.
    """
    for place in (folder, folder / "data"):
        files = sorted(place.iterdir()) if place.is_dir() else []
        files = [path for path in files if path.suffix.casefold() == ".parquet"]
        splits: dict[str, list[Path]] = {}
        for path in files:
            if match := _SPLIT.fullmatch(path.stem):
                splits.setdefault(match[1].casefold(), []).append(path)
        if files:
            return splits or {"train": files}
    return {}


def open_parquet(path: Path) -> pq.ParquetFile:
    """An open parquet file.

    Args:
        path: An existing file.

    Returns:
        The file; nothing but its schema has been read.

    Raises:
        UsageError: If it is not a parquet file.
    """
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise UsageError(
            f"{path} is not a whole parquet file ({error}); copy or download it again."
        ) from error


def _download(identity: str, config: str | None) -> Any:
    cached = Path(HF_DATASETS_CACHE) / identity.replace("/", "___")
    try:
        # One quick question first: without a network, load_dataset retries for half a minute.
        if not cached.is_dir():
            HfApi().dataset_info(identity, timeout=10)
        with _no_progress_bars():
            return datasets.load_dataset(identity, config)
    except (OSError, ValueError, HTTPError, DatasetsError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UsageError(
            f"'{identity}' is neither the word mnist5k, nor an existing folder or file, nor a "
            f"Hugging Face data set that can be loaded now ({reason}); check the spelling, or "
            "give the path of a local copy."
        ) from error


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    shown = datasets_logging.is_progress_bar_enabled()
    datasets_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            datasets_logging.enable_progress_bar()


def _columns(
    names: Sequence[str], image: str | None, label: str | None, where: str
) -> tuple[str, str]:
    return (
        pick(names, image, IMAGE_COLUMNS, option="image_column", where=where),
        pick(names, label, LABEL_COLUMNS, option="label_column", where=where),
    )


def _class_names(feature: Any) -> tuple[str, ...] | None:
    return tuple(feature.names) if isinstance(feature, datasets.ClassLabel) else None


def _declared_classes(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    if b"huggingface" not in (schema.metadata or {}):
        return None
    return _class_names(datasets.Features.from_arrow_schema(schema)[column])


def _read(
    batches: Iterable[Any],
    columns: tuple[str, str],
    count: int,
    classes: tuple[str, ...] | None,
    *,
    where: str,
    root: Path,
) -> Examples:
    labels: list[Any] = []

    def pictures() -> Iterator[tuple[str, Any]]:
        for batch in batches:
            start = len(labels)
            labels.extend(batch.column(columns[1]).to_pylist())
            for row, stored in enumerate(batch.column(columns[0]).to_pylist(), start):
                place = f"row {row} of {where}"
                yield place, decode(stored, where=place, root=root)

    images = stack(pictures(), count, where=where)
    return Examples(images, labels, classes, where)
