"""Feature vectors and labels as NumPy and Parquet files store them."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tutelage.errors import UsageError, in_one_line
from tutelage_cli.data.columns import NAME_COLUMNS, PATH_COLUMNS, TableRows, pick
from tutelage_cli.data.example_columns import distinct_names, read_columns, rows_of
from tutelage_cli.data.label_columns import LabelColumn, concatenate_labels, refuse_mixed
from tutelage_cli.data.label_values import literal
from tutelage_cli.data.matching import (
    ID_COLUMNS,
    Known,
    Match,
    key_columns,
    match_of,
    names_by_id,
)
from tutelage_cli.data.parquet import IMAGE_COLUMNS, label_kind
from tutelage_cli.data.parquet_files import open_parquet, read_rows, schema_classes
from tutelage_cli.data.text.own_tables import LABELS

FEATURE_COLUMNS = ("features", "embeddings", "embedding", "vector", "x")
"""columns and arrays that are known to hold feature vectors, tried in order"""
LABEL_NAMES = (*LABELS, "y")
"""columns and arrays that are known to hold labels, tried in order"""
TEST = "test_"
"""begins the names of the arrays of a test part"""
AT_ONCE = 4096
"""rows that are converted at a time"""
_LARGEST = float(np.finfo(np.float32).max) / 2
"""so that the difference of two is finite in single precision, too"""


def read_npy(file: Path, *, mapped: bool = False) -> np.ndarray:
    """The array of a ``.npy`` file, memory-mapped or read."""
    load = _mapped if mapped else _loaded
    found = _guarded(file, f"{file} cannot be read as a .npy file of numbers", load)
    if isinstance(found, np.ndarray):
        return found
    raise UsageError(f"{file} holds several arrays, as a .npz file does: rename it to .npz.")


class Arrays:
    """The arrays of a ``.npz`` file, each read when it is accessed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._failed = f"{file} cannot be read as a .npz file of arrays"
        stored = _guarded(file, self._failed, _loaded)
        if isinstance(stored, np.ndarray):
            raise UsageError(f"{file} holds one array, as a .npy file does: rename it to .npy.")
        with stored:
            self.names: Sequence[str] = stored.files

    def __getitem__(self, name: str) -> np.ndarray:
        def read(file: Path) -> np.ndarray:
            with _loaded(file) as stored:
                return stored[name]

        return _guarded(self.file, f"array '{name}' of {self._failed}", read)


def _loaded(file: Path) -> Any:
    return np.load(file, allow_pickle=False)


def _mapped(file: Path) -> Any:
    return np.load(file, mmap_mode="r", allow_pickle=False)


def _guarded(file: Path, failed: str, read: Callable[[Path], Any]) -> Any:
    try:
        return read(file)
    except Exception as error:  # a header may be any text, a zip any bytes
        reason = in_one_line(error) or type(error).__name__
        if "pickle" in reason or "Python objects" in reason:
            reason = "it holds Python objects, which are never unpickled: save numbers or words"
        raise UsageError(f"{failed} ({reason:.200}).") from error


class Vectors(NamedTuple):
    """N vectors with a label each."""

    values: np.ndarray
    """real numbers [N, D]"""
    label: LabelColumn
    names: tuple[str, ...]
    """N: their own names, else names by their ids, else by their rows"""
    where: str
    by_id: bool = False
    """whether they are named by their ids"""


def checked(found: np.ndarray, where: str, *, array: bool = True) -> np.ndarray:
    """Feature vectors as float32."""
    refuse_odd(found, where, array=array)
    return np.ascontiguousarray(found, dtype=np.float32)


def refuse_odd(found: np.ndarray, where: str, *, array: bool = True) -> None:
    """Refuse an array that is no feature vectors."""
    if found.ndim != 2 or 0 in found.shape:
        raise UsageError(
            f"{where} holds an array of shape {found.shape}; allowed: [N, D], one row of D "
            "numbers for each of N examples."
        )
    if found.dtype.kind not in "fiub":
        raise UsageError(f"{where} holds {found.dtype} values; allowed: real numbers.")
    odd: list[int] = []
    for first in range(0, len(found), AT_ONCE):
        rows = found[first : first + AT_ONCE].astype(np.float64)
        fine = (np.abs(rows) <= _LARGEST).all(axis=1)  # NaN is not below
        odd += (first + np.flatnonzero(~np.asarray(fine))).tolist()
    if odd:
        what = "NaN, infinity or numbers beyond single precision"
        message = TableRows.of(where, len(found), array=array).rows_with(what, odd)
        raise UsageError(f"{message}: drop these rows, or put numbers in.")


def read_npz(file: Path, column: str | None, label: str | None) -> Mapping[str, Vectors]:
    """The arrays of a ``.npz`` file."""
    arrays = Arrays(file)
    own = [name for name in arrays.names if not name.startswith(TEST)]
    found = pick(own, column, FEATURE_COLUMNS, option="--feature-column", where=str(file))
    labels = pick(own, label, LABEL_NAMES, option="--label-column", where=str(file))
    named = next((name for name in (*NAME_COLUMNS, *ID_COLUMNS) if name in own), None)
    parts = {"train": ""} | ({"test": TEST} if TEST + found in arrays.names else {})
    return {
        part: _of_arrays(arrays, before + found, before + labels, named and before + named)
        for part, before in parts.items()
    }


def _of_arrays(arrays: Arrays, column: str, label: str, named: str | None) -> Vectors:
    file = arrays.file
    if label not in arrays.names:
        raise UsageError(f"{file} has an array '{column}', but no '{label}' with its labels.")
    values = checked(arrays[column], f"array '{column}' of {file}")
    labels = label_array(arrays[label], len(values), f"array '{label}' of {file}")
    rows = TableRows.of(str(file), len(values), array=True)
    names = rows.names()
    if named is not None and named in arrays.names:
        called = arrays[named]
        _refuse_shape(called, len(values), f"array '{named}' of {file}")
        if named.removeprefix(TEST) in NAME_COLUMNS:
            names = tuple(distinct_names(called.tolist(), rows))
        else:
            names = tuple(names_by_id(called.tolist())) or names
    return Vectors(values, labels, names, str(file))


def label_array(found: np.ndarray, rows: int, where: str) -> LabelColumn:
    """Labels of an array."""
    _refuse_shape(found, rows, where)
    if found.dtype.kind == "f":
        found = found.astype(np.float64)  # longer ones are no numbers of Python's
    return LabelColumn(found.tolist(), TableRows.of(where, rows, array=True))


def _refuse_shape(found: np.ndarray, rows: int, where: str) -> None:
    if found.ndim != 1 or found.dtype.kind not in "fiubU":
        raise UsageError(
            f"{where} holds {found.dtype} of shape {found.shape}; allowed: one number or word "
            "for each row."
        )
    refuse_length(len(found), rows, where)


def refuse_length(found: int, rows: int, where: str) -> None:
    """Refuse a column that is not one value for each row."""
    if found != rows:
        raise UsageError(
            f"{where} has {found} values, but there are {rows} rows of features: give one for "
            "each."
        )


def read_label_file(file: Path, column: str | None, rows: int) -> tuple[LabelColumn, list[str]]:
    """Labels, and names or else ids where there are some, from a file of their own.

    They are found by ids where the file has some (``matching.match_of``), else row by row.
    """
    if file.suffix.casefold() == ".npy":
        return label_array(read_npy(file), rows, str(file)), []
    if file.suffix.casefold() not in (".csv", ".parquet"):
        raise UsageError(
            f"labels cannot be read from {file}; give a .csv, .parquet or .npy file."
        )
    columns = read_columns(file)
    where = str(file)
    label = pick(list(columns), column, LABEL_NAMES, option="--label-column", where=where)
    table_rows = rows_of(columns, where)
    named = next(iter(key_columns(columns, NAME_COLUMNS)), None)
    found = match_of(columns, Known(range(rows), (), rows), table_rows, without=(label,))
    if found is None:
        refuse_length(len(columns[label]), rows, f"column '{label}' of {where}")
    places = range(rows) if found is None else found.places
    typed = file.suffix.casefold() == ".parquet"
    values: Sequence[Any] = columns[label] if typed else literal(columns[label])
    names = [] if named is None else distinct_names(columns[named], table_rows)
    if named is None and (ids := _ids_of(columns, found, label)) is not None:
        names = names_by_id(ids)
    numbers = [table_rows.place(place)[1] for place in places]
    labels = LabelColumn(
        [values[place] for place in places], TableRows(((where, numbers),)), typed=typed
    )
    return labels, [names[place] for place in places] if names else []


def _ids_of(
    columns: Mapping[str, Sequence[Any]], found: Match | None, label: str
) -> Sequence[Any] | None:
    # those that it was matched by, else the first there are
    if found is not None:
        return columns[found.column]
    keys = [key for key in key_columns(columns, ID_COLUMNS) if key != label]
    return columns[keys[0]] if keys else None


def vector_column(schema: Any, wanted: str | None = None) -> str | None:
    """The column of a Parquet file that holds feature vectors."""
    known = {name.strip().casefold(): name for name in schema.names}
    if wanted is not None:
        return wanted if wanted in schema.names else None
    if any(name in known for name in (*IMAGE_COLUMNS, *PATH_COLUMNS)):
        return None
    guesses = [known[name] for name in FEATURE_COLUMNS if name in known]
    return next((name for name in guesses if _holds_numbers(schema.field(name).type)), None)


def _holds_numbers(kind: Any) -> bool:
    import pyarrow.types as types

    listed = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if not any(is_kind(kind) for is_kind in listed):
        return False
    number = (types.is_floating, types.is_integer, types.is_boolean)
    return any(is_kind(kind.value_type) for is_kind in number)


def refuse_other_vectors(files: Sequence[Path]) -> None:
    """Refuse a Parquet file that seems to hold vectors, of something else than numbers."""
    schema = open_parquet(files[0]).schema_arrow
    known = {name.strip().casefold(): name for name in schema.names}
    if any(name in known for name in (*IMAGE_COLUMNS, *PATH_COLUMNS)):
        return
    found = next((known[name] for name in FEATURE_COLUMNS if name in known), None)
    if found is not None:
        raise UsageError(
            f"column '{found}' of {files[0]} holds {schema.field(found).type}; allowed: lists "
            "of real numbers, a vector for each row."
        )


def read_vectors(files: Sequence[Path], column: str | None, label: str | None) -> Vectors:
    """The vectors and labels of Parquet files that follow one another."""
    read = [_read_file(file, column, label) for file in files]
    refuse_mixed([(kind, part.where) for part, kind in read])
    found = [part for part, _ in read if len(part.values)]
    if not found:
        raise UsageError(f"{files[0]} holds no rows; give a file with some.")
    widths = {part.values.shape[1] for part in found}
    if len(widths) > 1:
        raise UsageError(
            f"{found[0].where} and files beside it have vectors of {sorted(widths)} numbers; "
            "give as many in all."
        )
    names = tuple(name for part in found for name in part.names)
    if any(part.by_id for part in found) and len(set(names)) < len(names):
        names = ()  # ids that begin again in every file
    values = np.concatenate([part.values for part in found])
    labels = concatenate_labels([part.label for part in found])
    rows = labels.rows
    named = tuple(distinct_names(names, rows)) if len(names) == len(values) else rows.names()
    return Vectors(values, labels, named, found[0].where)


def _read_file(file: Path, column: str | None, label: str | None) -> tuple[Vectors, str]:
    # with what its labels are
    stored = open_parquet(file)
    schema, where = stored.schema_arrow, str(file)
    found = vector_column(schema, column)
    if found is None:
        pick(schema.names, column, FEATURE_COLUMNS, option="--feature-column", where=where)
    labels = pick(schema.names, label, LABEL_NAMES, option="--label-column", where=where)
    if found is None or not _holds_numbers(schema.field(found).type):
        raise UsageError(f"column '{found}' of {where} holds no lists of numbers.")
    names = [name for name in NAME_COLUMNS if name in schema.names]
    by_id = not names
    keys = names or [k for k in key_columns(schema.names, ID_COLUMNS) if k != labels]
    named = next(iter(keys), None)
    read = read_rows(file, stored, [found, labels, *([named] if named else [])])
    rows = TableRows.of(where, len(read))
    names = read[named].to_pylist() if named else []
    values = _stacked(read[found], rows)
    vectors = Vectors(
        checked(values, f"column '{found}' of {where}", array=False) if len(read) else values,
        LabelColumn(read[labels].to_pylist(), rows, schema_classes(schema, labels)),
        tuple(names_by_id(names) if by_id else distinct_names(names, rows)),
        where,
        by_id,
    )
    return vectors, label_kind(schema.field(labels).type) if len(read) else ""


def _stacked(column: Any, rows: TableRows) -> np.ndarray:
    pc: Any = import_module("pyarrow.compute")  # whose functions are made as it is imported
    counts = pc.list_value_length(column).to_pylist()  # None where there is no list
    width = next((count for count in counts if count is not None), 0)
    other = [row for row, count in enumerate(counts) if count != width or count is None]
    if other:
        raise UsageError(
            f"{rows.rows_with(f'no vector of {width} numbers', other)}, as other rows have: "
            "give as many numbers in all."
        )
    flat = pc.list_flatten(column).to_numpy(zero_copy_only=False)
    return flat.reshape(len(counts), width)
