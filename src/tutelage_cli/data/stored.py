"""Data as it is stored: a path, or the id of a Hugging Face data set."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from tutelage.errors import UsageError
from tutelage_cli.data.assemble import Examples, assemble_images, choose
from tutelage_cli.data.cache import cached
from tutelage_cli.data.decode import PILLOW
from tutelage_cli.data.folders import (
    EXTENSIONS,
    class_folders,
    folder_files,
    list_folders,
    read_listed,
)
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.parquet import parquet_files, parquet_of, read_parquet, refuse_saved
from tutelage_cli.data.reading import STRICT, TABLES, Reading, unread_tables
from tutelage_cli.data.tables import (
    listed_files,
    lists_images,
    read_tables,
    table_files,
    table_splits,
)

T = TypeVar("T")
OTHER_FILES = (".npy", ".npz", ".tsv", ".txt", ".json", ".jsonl", ".zip", ".tar", ".gz", ".tgz")
"""endings by which a name is that of a file, and not of a data set on the Hub"""

_LOG = logging.getLogger(__name__)
_HUB_ID = re.compile(r"(\w[\w.-]*(?:/\w[\w.-]*)?)(?::([\w.-]+))?")


def load_stored(source: str, reading: Reading = STRICT) -> Splits[ImageSet]:
    """The images and labels of a source, as a train and a test split.

    A source is, tried in this order,

    * a folder of parquet files in the form of the Hugging Face Hub (or one such file);
    * a folder with a csv file that lists paths and labels (or that file);
    * a folder with one folder of images for each class, perhaps below train/ and test/;
    * the id of a Hugging Face data set: ``name``, ``owner/name``, or either with ``:config``.

    The test split is ``test``, or else ``validation`` or ``val``; where there is none, a
    fixed fifth of every class of train is held out. What was left out, and what else is worth
    knowing of the source, is logged as a warning and kept in ``Splits.notes``.

    All but a data set of the Hub is decoded once and then read from the user's cache folder,
    for as long as its files stay the same (see :func:`tutelage_cli.data.cache.cached`).
    """
    path = Path(source).expanduser()
    if not is_source(source):
        raise UsageError(
            f"'{source}' is not a source of data; give an existing folder, .csv or .parquet "
            "file, or a Hugging Face data set id such as owner/name."
        )
    if not path.exists():
        identity, _, config = source.partition(":")
        from tutelage_cli.data.hub import read_hub  # its client takes seconds to import

        found = read_hub(identity, config or None, reading)
        return _logged(assemble_images(*found, name=source, reading=reading))
    place = path.resolve()
    local = _find(path, reading)
    splits = cached(
        lambda: assemble_images(*local.read(), name=place.name, reading=reading),
        files=local.files,
        arguments=[PILLOW, str(place), repr(reading)],
    )
    return _logged(replace(splits, notes=local.notes + splits.notes))


def _logged(splits: Splits[ImageSet]) -> Splits[ImageSet]:
    for note in splits.notes:
        _LOG.warning(note)
    return splits


def is_source(source: str) -> bool:
    """Whether a text names a folder or table that exists, or may name a set on the Hub."""
    path = Path(source).expanduser()
    if source and path.exists():
        return path.is_dir() or _is_table(path)
    named_as_file = path.suffix.casefold() in (*TABLES, *EXTENSIONS, *OTHER_FILES)
    return not named_as_file and _HUB_ID.fullmatch(source) is not None


def image_files(
    source: str, reading: Reading = STRICT
) -> tuple[Sequence[Path], Sequence[Path] | None]:
    """The file of each row of the train and of the test split, by id.

    The first is empty where images are not in files of their own; the second is None where the
    source has no test split.
    """
    path = Path(source).expanduser().resolve()
    if not path.exists() or parquet_of(path):
        return (), None
    if tables := tables_of(path, reading):
        train, test = choose(tables, where=str(path))
        return listed_files(train, reading), test and listed_files(test, reading)
    first, second = list_folders(path, reading=reading)
    return first.files, None if second is None else second.files


class _Found(NamedTuple):
    """A local source before its images are decoded."""

    files: Sequence[Path]
    """all that its images and labels depend on; None where that is not known"""
    read: Callable[[], tuple[Examples, Examples | None]]
    notes: tuple[str, ...] = ()
    """what is left out of it, which may change while these files do not"""


def _find(path: Path, reading: Reading) -> _Found:
    refuse_saved(path)
    if parquet := parquet_of(path):
        files = parquet_files(parquet, reading)
        used = [file for part in _chosen(parquet, path) for file in part]
        read = partial(read_parquet, parquet, reading)
        return _Found(files, read, unread_tables(path, used))
    if tables := tables_of(path, reading):
        read = partial(read_tables, tables, reading)
        notes = unread_tables(path, _chosen(tables, path))
        return _Found(table_files(tables, reading), read, notes)
    refuse_columns(str(path), reading)
    train, test = list_folders(path, reading=reading)
    parts = (train, *(() if test is None else (test,)))
    notes = tuple(note for part in parts for note in part.notes)

    def read_both() -> tuple[Examples, Examples | None]:
        first, *second = (read_listed(part._replace(notes=()), reading) for part in parts)
        return first, next(iter(second), None)

    return _Found(folder_files(path), read_both, notes)


def _chosen(found: Mapping[str, T], path: Path) -> list[T]:
    return [part for part in choose(found, where=str(path)) if part is not None]


def _is_table(path: Path) -> bool:
    return path.is_file() and path.suffix.casefold() in (".parquet", ".csv")


def tables_of(path: Path, reading: Reading) -> Mapping[str, Path]:
    """The CSV file of each split of a path, if it is or holds such that list images."""
    if not path.is_dir():
        return {"train": path}
    tables = table_splits(path)
    # A csv file next to class folders may be about something else.
    if tables and class_folders(path) and not lists_images(tables["train"], reading):
        return {}
    return tables


def refuse_columns(source: str, reading: Reading) -> None:
    """Refuse the name of a column for a source without columns."""
    columns = {"--image-column": reading.image_column, "--label-column": reading.label_column}
    for option, column in columns.items():
        if column is not None:
            raise UsageError(
                f"{option} is '{column}', but {source} has no columns; leave {option} out."
            )
