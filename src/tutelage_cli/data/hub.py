"""Data sets of the Hugging Face Hub."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tutelage.errors import MissingExtraError, UsageError
from tutelage_cli.data.assemble import Examples, choose, unread_parts
from tutelage_cli.data.parquet import ROWS, Stored, image_and_label, label_kind, read_stored
from tutelage_cli.data.parquet_files import declared_classes
from tutelage_cli.data.reading import STRICT, Reading

try:
    import datasets
    from datasets.config import HF_DATASETS_CACHE
    from datasets.exceptions import DatasetsError
    from datasets.utils import logging as datasets_logging
    from huggingface_hub import HfApi

    # What the client's own HTTP library raises: httpx, or another in other versions.
    from huggingface_hub.errors import HTTPError  # pyright: ignore[reportPrivateImportUsage]
except ImportError as error:
    raise MissingExtraError("datasets", "train") from error


def read_hub(
    identity: str, config: str | None, reading: Reading = STRICT
) -> tuple[Examples, Examples | None]:
    """The splits of a data set on the Hub, or of its copy in the local cache."""
    splits = _download(identity, config)
    if not isinstance(splits, datasets.DatasetDict):
        raise UsageError(f"the data set '{identity}' has no splits; allowed: a train split.")
    named = {str(name): part for name, part in splits.items()}
    train, test = choose(named, where=identity)
    notes = unread_parts(named, where=identity)

    def examples(part: datasets.Dataset) -> Examples:
        columns = image_and_label(part.column_names, reading, where=identity)
        batches = part.select_columns(list(columns)).with_format("arrow").iter(ROWS)
        where = f"split {part.split} of {identity}"
        schema = part.features.arrow_schema
        stored = Stored(
            batches,
            columns,
            len(part),
            declared_classes(part.features[columns[1]]),
            label_kind(schema.field(columns[1]).type),
            where,
        )
        return read_stored([stored], reading, root=Path())

    first = examples(train)
    first = replace(first, notes=notes + first.notes)
    return first, None if test is None else examples(test)


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
