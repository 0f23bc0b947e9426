"""One's own feature vectors with labels, from .npy, .npz or Parquet files."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.assemble import Found, assemble, choose
from tutelage_cli.data.columns import TableRows
from tutelage_cli.data.features.arrays import (
    AT_ONCE,
    Vectors,
    read_label_file,
    read_npy,
    read_npz,
    read_vectors,
    refuse_odd,
    refuse_other_vectors,
    vector_column,
)
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.mapped import ArrayWriter
from tutelage_cli.data.parquet import parquet_of
from tutelage_cli.data.parquet_files import open_parquet
from tutelage_cli.data.reading import STRICT, Reading

NPY, NPZ = ".npy", ".npz"


def holds_features(source: str, column: str | None = None) -> bool:
    """Whether a source is a table of feature vectors."""
    path = Path(source).expanduser()
    if path.suffix.casefold() in (NPY, NPZ):
        return True
    if files := parquet_of(path):
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
    if files := parquet_of(Path(source).expanduser()):
        refuse_other_vectors(next(iter(files.values())))


def read_features(
    source: str,
    *,
    column: str | None = None,
    labels_from: Path | None = None,
    reading: Reading = STRICT,
) -> Splits[FeatureSet]:
    """Feature vectors and labels of a source, as a train and a test part.

    Where there is no test part, a fixed fifth of every class of train is held out.
    """
    path = Path(source).expanduser().resolve()
    train, test = choose(
        _read(path, column, reading.label_column, labels_from), where=str(path)
    )
    tested = None if test is None else _found(test, path.name)
    return assemble(_found(train, path.name), tested, reading)


def _found(vectors: Vectors, name: str) -> Found[FeatureSet]:
    def build(codes: Tensor, classes: tuple[str, ...]) -> FeatureSet:
        rows = (codes >= 0).nonzero().flatten()
        values = vectors.values
        written = ArrayWriter(len(rows), values.shape[1:], np.float32)
        for some in rows.split(AT_ONCE):
            written.append(values[some.numpy()])
        return FeatureSet(written.finish(), codes[rows], rows, classes, name, vectors.names)

    return Found(vectors.label, build, vectors.where)


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
    found = parquet_of(path)
    return {part: read_vectors(files, column, label) for part, files in found.items()}


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
    refuse_odd(values := read_npy(path, mapped=True), str(path))
    labels, names = read_label_file(labels_from, label, len(values))
    called = tuple(names) or TableRows.of(str(path), len(values)).names()
    return Vectors(values, labels, called, str(path))
