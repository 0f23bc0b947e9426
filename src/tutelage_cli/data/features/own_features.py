"""One's own feature vectors with labels, from .npy, .npz or Parquet files."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.assemble import about_classes, about_others, choose
from tutelage_cli.data.features.arrays import (
    Vectors,
    checked,
    read_label_file,
    read_npz,
    read_vectors,
    refuse_other_vectors,
    vector_column,
)
from tutelage_cli.data.features.feature_set import FeatureParts, FeatureSet
from tutelage_cli.data.features.numpy_files import read_npy
from tutelage_cli.data.label_columns import agreed_classes, class_numbers
from tutelage_cli.data.parquet import parquet_splits
from tutelage_cli.data.parquet_files import open_parquet
from tutelage_cli.data.reading import STRICT, Reading
from tutelage_cli.data.row_numbers import TableRows
from tutelage_cli.data.splits import held_out_rows

NPY, NPZ = ".npy", ".npz"


def holds_features(source: str, column: str | None = None) -> bool:
    """Whether a source is a table of feature vectors."""
    path = Path(source).expanduser()
    if path.suffix.casefold() in (NPY, NPZ):
        return True
    if files := _parquet(path):
        first = next(iter(files.values()))[0]
        if vector_column(open_parquet(first).schema_arrow, column) is not None:
            return True
    if column is not None:
        raise UsageError(
            f"--feature-column is '{column}', but {source} is no .npz or Parquet file with "
            "such a column."
        )
    return False


def refuse_odd_vectors(source: str) -> None:
    """Refuse a Parquet source whose column of vectors holds something else than numbers."""
    if files := _parquet(Path(source).expanduser()):
        refuse_other_vectors(next(iter(files.values())))


def read_features(
    source: str,
    *,
    column: str | None = None,
    label_column: str | None = None,
    labels_from: Path | None = None,
    reading: Reading = STRICT,
) -> FeatureParts:
    """Feature vectors and labels of a source, as a train and a test part.

    Where there is no test part, a fixed fifth of every class of train is held out.
    """
    path = Path(source).expanduser().resolve()
    train, test = choose(_read(path, column, label_column, labels_from), where=str(path))
    given, tested = train.label, None if test is None else test.label
    classes = agreed_classes(given, tested, reading)
    codes, notes = class_numbers(given, classes, reading, beside=tested)
    if len(classes) < 2:
        raise UsageError(
            f"{train.where} has one class only ('{', '.join(classes)}'); give two or more."
        )
    learned = _feature_set(train, codes, classes, path.name)
    notes += about_classes(learned.labels, classes)
    if test is None or tested is None:
        if reading.whole:
            return FeatureParts(learned, learned.rows(torch.arange(0)), notes)
        kept, lent = held_out_rows(learned.labels, len(classes), name=learned.name)
        parts = FeatureParts(learned.rows(kept), learned.rows(lent))
    else:
        codes, more = class_numbers(tested, classes, reading, beside=given, of=train.where)
        parts = FeatureParts(learned, _feature_set(test, codes, classes, path.name))
        _refuse_widths(parts)
        notes += more
    lacking = about_others(parts.train.labels, parts.test.labels, classes)
    return parts._replace(notes=notes + lacking)


def _read(
    path: Path, column: str | None, label: str | None, labels_from: Path | None
) -> Mapping[str, Vectors]:
    kind = path.suffix.casefold()
    if not path.exists():
        raise UsageError(f"there is no file {path}; give a .npy, .npz or Parquet file.")
    if kind == NPY:
        return {"train": _npy(path, column, label, labels_from)}
    if kind == NPZ:
        return read_npz(path, column, label)
    return {part: read_vectors(files, column, label) for part, files in _parquet(path).items()}


def _npy(
    path: Path, column: str | None, label: str | None, labels_from: Path | None
) -> Vectors:
    if column is not None:
        raise UsageError(f"--feature-column is '{column}', but {path} has no columns.")
    if labels_from is None:
        raise UsageError(
            f"{path} has features without labels: name a table or .npy file of them with "
            "--labels-from, or give a .npz or Parquet file that has both."
        )
    values = checked(read_npy(path), str(path))
    labels, names = read_label_file(labels_from, label, len(values))
    called = tuple(names) or TableRows.of(str(path), len(values)).names()
    return Vectors(values, labels, called, str(path))


def _parquet(path: Path) -> dict[str, list[Path]]:
    if path.is_dir():
        return parquet_splits(path)
    return {"train": [path]} if path.suffix.casefold() == ".parquet" and path.is_file() else {}


def _feature_set(of: Vectors, codes: Tensor, classes: tuple[str, ...], name: str) -> FeatureSet:
    rows = (codes >= 0).nonzero().flatten()
    values = torch.from_numpy(of.values)[rows]
    return FeatureSet(values, codes[rows], rows, classes, name, of.names)


def _refuse_widths(parts: FeatureParts) -> None:
    train, test = (part.features.shape[1] for part in parts[:2])
    if train != test:
        raise UsageError(
            f"{parts.train.name} has vectors of {train} numbers in train and of {test} in "
            "test; give as many in both."
        )
