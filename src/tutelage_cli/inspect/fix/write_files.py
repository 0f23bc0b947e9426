"""The corrected data as files: tables of the source's own kind, a listing, or arrays."""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tutelage.storage.atomic_files import write_atomically
from tutelage_cli.data.assemble import choose
from tutelage_cli.data.columns import PATH_COLUMNS, pick
from tutelage_cli.data.features.arrays import LABEL_NAMES
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.features.own_features import NPY, NPZ
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.mapped import in_memory
from tutelage_cli.data.parquet import LABEL_COLUMNS, parquet_files, parquet_of
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import is_named
from tutelage_cli.data.stored import tables_of
from tutelage_cli.data.tables import LABEL_COLUMNS as LISTED_LABELS
from tutelage_cli.data.text.own_tables import LABELS, text_files
from tutelage_cli.inspect.fix.corrections import CorrectedData
from tutelage_cli.inspect.fix.tables import CsvTable, ParquetTable, Table, raw_labels, write_csv
from tutelage_cli.inspect.image_files import files_of_images
from tutelage_cli.train.settings import COLOURED_DIGITS, TrainSettings
from tutelage_cli.train.students import Data

FEATURES = "features.npz"


class _Source(NamedTuple):
    """The tables that the data are in."""

    train: Table
    test: Table | None
    """None where some rows of train are the test part"""
    label: str
    """the column of labels"""
    files: Sequence[Sequence[Path]] = ()
    """of images in files of their own: those of train, and of test"""
    path: str = ""
    """the column that names these"""


def write_fixed(
    folder: Path, out: Path, settings: TrainSettings, data: CorrectedData
) -> TrainSettings:
    """Write the training part, and the test part unless it is in a source of its own.

    Files are written into ``folder``, which will be called ``out``. Returns the settings of the
    same run on them.
    """
    fixed = _without_labels_beside(settings, str(out))
    parts = {"train": data.train}
    parts |= {"test": data.test} if settings.test_from is None else {}
    if isinstance(data.train, FeatureSet) and Path(settings.data).suffix.casefold() in (
        NPY,
        NPZ,
    ):
        _write_arrays(folder / FEATURES, parts)
        data_name = str(out / FEATURES)
        return replace(fixed, data=data_name, label_column=None, feature_column=None)
    if (source := _source_of(settings, data.train)) is not None:
        _write_rows(folder, out, source, parts, data.own)
        return fixed
    files = files_of_images(settings)
    for number, (name, part) in enumerate(parts.items()):
        if files:
            paths = [files[number][row] for row in part.ids.tolist()]
            write_csv(folder / f"{name}.csv", _listing(part, paths, out))
        elif isinstance(part, ImageSet):
            _write_pictures(folder / f"{name}.parquet", part)
    return replace(fixed, image_column=None, label_column=None)


def _without_labels_beside(settings: TrainSettings, data: str) -> TrainSettings:
    # noise and labels of a file are in the new labels; weights of a file were of the old ones
    turned = settings.augment is None and settings.data in COLOURED_DIGITS
    return replace(
        settings,
        data=data,
        noise=None,
        labels_from=None,
        weights_from=None,
        default_weight=None,
        label_column=settings.data_label_column,
        augment="none" if turned else settings.augment,
    )


def _source_of(settings: TrainSettings, train: Data) -> _Source | None:
    # None for images in class folders, and for those whose source is no file
    path, label = Path(settings.data).expanduser(), settings.data_label_column
    where = settings.data
    if isinstance(train, ImageSet):
        return None if is_named(where) or not path.exists() else _images(settings, path)
    if isinstance(train, FeatureSet):
        files, other = choose(parquet_of(path), where=where)
        guesses = LABEL_NAMES
    else:
        files, other = text_files(where, label_column=label)
        guesses = LABELS
    first, second = _table(files), None if other is None else _table(other)
    return _Source(first, second, _picked(first, label, guesses, "label_column", where))


def _images(settings: TrainSettings, path: Path) -> _Source | None:
    column, label, where = settings.image_column, settings.data_label_column, settings.data
    reading = Reading(image_column=column, label_column=label)
    if parquet := parquet_of(path):
        if not parquet_files(parquet, reading):
            return None  # of paths
        files, other = choose(parquet, where=where)
        first, second = _table(files), None if other is None else _table(other)
        return _Source(
            first, second, _picked(first, label, LABEL_COLUMNS, "label_column", where)
        )
    tables = tables_of(path, reading)
    if not tables:
        return None
    file, tested = choose(tables, where=where)
    first, second = CsvTable(file), None if tested is None else CsvTable(tested)
    labels = _picked(first, label, LISTED_LABELS, "label_column", where)
    paths = _picked(first, column, PATH_COLUMNS, "image_column", where)
    return _Source(first, second, labels, files_of_images(settings), paths)


def _picked(
    table: Table, wanted: str | None, guesses: Sequence[str], option: str, where: str
) -> str:
    return pick(table.names, wanted, guesses, option=option, where=where)


def _table(files: Sequence[Path]) -> Table:
    csv = files[0].suffix.casefold() == ".csv"
    return CsvTable(files[0]) if csv else ParquetTable(files)


def _write_rows(
    folder: Path, out: Path, source: _Source, parts: Mapping[str, Data], own: Data
) -> None:
    column, declared = source.train.column(source.label), source.train.declared(source.label)
    words = raw_labels(column, own.ids, own.labels, own.classes, declared=declared)
    for number, (name, part) in enumerate(parts.items()):
        lent = name == "test" and source.test is not None
        table = source.test if lent and source.test is not None else source.train
        rows = part.ids.tolist()
        changed: dict[str, Sequence[Any]] = {}
        if not lent:
            changed[source.label] = [words[code] for code in part.labels.tolist()]
        if source.path:
            changed[source.path] = _below([source.files[number][row] for row in rows], out)
        table.write(folder / name, rows, changed)


def _listing(part: Data, files: Sequence[Path], out: Path) -> dict[str, Sequence[str]]:
    labels = [part.classes[code] for code in part.labels.tolist()]
    return {"path": _below(files, out), "label": labels}


def _below(files: Sequence[Path], out: Path) -> list[str]:
    # paths from a folder, or whole ones where there is no way from there
    try:
        return [Path(os.path.relpath(file, out.resolve())).as_posix() for file in files]
    except ValueError:  # another drive
        return list(map(str, files))


def _write_pictures(file: Path, images: ImageSet) -> None:
    stored = [
        {"bytes": content, "path": name}
        for content, name in zip(_as_png(images), images.names(), strict=True)
    ]
    pq.write_table(pa.table({"image": stored, "label": _plain_labels(images)}), file)


def _as_png(images: ImageSet) -> Iterator[bytes]:
    for pixels in images.images:
        image = pixels.permute(1, 2, 0).numpy()
        picture = io.BytesIO()
        shown = image[..., 0] if image.shape[2] == 1 else image
        Image.fromarray(np.ascontiguousarray(shown)).save(picture, format="PNG")
        yield picture.getvalue()


def _write_arrays(file: Path, parts: Mapping[str, Data]) -> None:
    arrays: dict[str, Any] = {}
    for name, part in parts.items():
        assert isinstance(part, FeatureSet)
        before = "" if name == "train" else f"{name}_"
        arrays[f"{before}features"] = in_memory(part.features).numpy()
        arrays[f"{before}labels"] = np.array(_plain_labels(part))
        arrays[f"{before}name"] = np.array(part.names())
    content = io.BytesIO()
    np.savez(content, **arrays)
    write_atomically(file, content.getvalue())


def _plain_labels(part: Data) -> list[int] | list[str]:
    # numbers where the classes are numbered from 0, so that they stay in their order
    if part.classes == tuple(map(str, range(len(part.classes)))):
        return part.labels.tolist()
    return [part.classes[code] for code in part.labels.tolist()]
