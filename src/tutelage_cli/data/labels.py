"""Another set of labels for a known train split, such as those of human annotators."""

from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.classes import ClassLookup, encode
from tutelage_cli.data.columns import TableRows, pick
from tutelage_cli.data.example_columns import read_columns, rows_of
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.label_values import literal
from tutelage_cli.data.local import FOLDER, local_folder
from tutelage_cli.data.matching import Known, match_of
from tutelage_cli.data.noise import ANNOTATORS, HUMAN, Noise
from tutelage_cli.data.parquet import parquet_splits, refuse_saved
from tutelage_cli.data.parquet_files import open_parquet, schema_classes

TRUE = "clean_label"
IMAGES = 50_000
"""that people labelled"""


def read_labels(
    file: Path,
    column: str,
    rows: int,
    classes: tuple[str, ...],
    *,
    examples: Known | None = None,
) -> Int64[Tensor, "N"]:
    """The labels of a column, for the examples of the source's train split.

    They are found by the names or ids of the examples where the table has a column of such
    (``matching.match_of``); row by row otherwise. A word is the name of a class. A number is
    the class that it is the name of; where no class is named by a number, it is the place of
    one.
    """
    table = _table_file(file)
    columns = read_columns(table)
    where = f"column '{column}' of {table}"
    label = pick(list(columns), column, (), option="the column of labels", where=str(table))
    values, declared = columns[label], None
    if table.suffix.casefold() == ".parquet":
        declared = schema_classes(open_parquet(table).schema_arrow, label)
    elif not all(text in classes for text in values):
        values = literal(values)
    table_rows = rows_of(columns, str(table))
    examples = examples or Known(range(rows), (), rows)
    match = match_of(columns, examples, table_rows, without=(label,))
    if match is None and len(values) != rows:
        raise UsageError(
            f"{table} has {len(values)} rows, but the train split has {rows}; give one label "
            "for each of its rows, in their order, or a column id or name."
        )
    places = range(rows) if match is None else match.places
    values = [values[place] for place in places]
    found = TableRows(((where, [table_rows.place(place)[1] for place in places]),))
    lookup = ClassLookup(classes, places=True, declared=declared)
    return encode(values, classes, where=where, lookup=lookup, rows=found)


def _table_file(file: Path) -> Path:
    if file.is_dir():
        refuse_saved(file)
        files = parquet_splits(file).get("train", [])
        if len(files) == 1:
            return files[0]
        raise UsageError(
            f"{file} holds {len(files)} parquet files for the split train; allowed: one, or "
            "give the path of the file itself."
        )
    if not file.is_file():
        raise UsageError(f"there is no file {file}; give a .parquet or .csv file of labels.")
    if file.suffix.casefold() not in (".parquet", ".csv"):
        raise UsageError(
            f"labels cannot be read from {file}; allowed: a .parquet or .csv file."
        )
    return file


def human_labels(train: ImageSet, annotator: str) -> Int64[Tensor, "N"]:
    """What people said of every training image of CIFAR-10.

    Source: Wei et al. 2022, "Learning with Noisy Labels Revisited: A Study Using Real-World
    Human Annotations".
    """
    noise = Noise(HUMAN, 0.0, annotator)
    copy = local_folder("cifar10n")
    if copy is None and len(train) == IMAGES:
        raise UsageError(
            f"cifar10n is not here: set {FOLDER} to a folder that holds a copy in its "
            "subfolder cifar10n, or give a file of labels by --labels-from."
        )
    others = UsageError(
        f"'human:{annotator}' holds labels of CIFAR-10's training images, but {train.name} "
        "holds others; give a file of labels by --labels-from."
    )
    if copy is None:
        raise others
    try:
        known = read_labels(copy, TRUE, len(train), train.classes)
    except UsageError as error:  # not as many, or not these classes
        raise others from error
    if not torch.equal(known, train.labels):
        raise others
    return read_labels(copy, ANNOTATORS[noise.annotator], len(train), train.classes)
