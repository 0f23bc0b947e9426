"""Loss and weight of every training example in each epoch, recorded at the student's steps."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from tutelage.storage.atomic_files import atomic_path
from tutelage.training.forward import StepResult
from tutelage_cli.train.students import Data

MAX_EPOCHS = 32
"""epochs kept of a run; each takes 8 bytes for every example"""
LOSS, WEIGHT = 0, 1
HISTORY = "history.parquet"
COLUMNS = ("losses", "weights")
EPOCHS = b"epochs"


def epochs_kept(epochs: int) -> list[int]:
    """The epochs of which losses and weights are kept."""
    if epochs <= MAX_EPOCHS:
        return list(range(1, epochs + 1))
    return [1 + round(place * (epochs - 1) / (MAX_EPOCHS - 1)) for place in range(MAX_EPOCHS)]


def empty_history(rows: int, epochs: int) -> Tensor:
    """A tensor [2, N, T] for losses and weights in the kept epochs."""
    return torch.zeros(2, rows, len(epochs_kept(epochs)))


class ExampleIndex(NamedTuple):
    """Rows and wrong labels of training examples, indexed by id."""

    row: Tensor
    """int64: row in the training set"""
    wrong: Tensor | None
    """bool: whether the training label is wrong; None where that is not known"""


def example_index(images: Data, wrong: Tensor | None) -> ExampleIndex:
    """Index training examples by the ids that a step's record has."""
    size = int(images.ids.max()) + 1
    row = torch.zeros(size, dtype=torch.long)
    row[images.ids] = torch.arange(len(images))
    if wrong is None:
        return ExampleIndex(row, None)
    flags = torch.zeros(size, dtype=torch.bool)
    flags[images.ids] = wrong
    return ExampleIndex(row, flags)


def record_step(tracked: Tensor, record: StepResult, rows: Tensor, column: int) -> None:
    """Record the losses and weights of a step's rows."""
    tracked[LOSS, rows, column] = record.losses.float().cpu()
    tracked[WEIGHT, rows, column] = record.weights.float().cpu()


def write_example_history(folder: Path, images: Data, tracked: Tensor, epochs: int) -> None:
    """Write the history, one row for each example."""
    kept = epochs_kept(epochs)
    columns: dict[str, pa.Array] = {"id": pa.array(images.ids.numpy())}
    for name, values in zip(COLUMNS, tracked.numpy(), strict=True):
        columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), len(kept))
    table = pa.table(columns).replace_schema_metadata({EPOCHS: json.dumps(kept)})
    with atomic_path(folder / HISTORY) as part:
        pq.write_table(table, part)


def read_example_history(
    path: Path, ids: np.ndarray
) -> tuple[list[int], Mapping[str, np.ndarray]]:
    """Read the table that ``write_example_history`` wrote."""
    try:
        table = pq.read_table(path)
    except OSError as error:  # pyarrow's, of damage
        raise ValueError(str(error)) from error
    kept = json.loads((table.schema.metadata or {}).get(EPOCHS, b"[]"))
    if not (isinstance(kept, list) and kept and all(type(epoch) is int for epoch in kept)):
        raise ValueError("it does not say of which epochs it is")
    if not np.array_equal(table["id"].to_numpy(), ids):
        raise ValueError("it is about other examples")
    columns = {}
    for name in COLUMNS:
        column = table[name].combine_chunks()
        if column.type != pa.list_(pa.float32(), len(kept)):
            raise ValueError(f"column {name} is not {len(kept)} numbers for each example")
        columns[name] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, len(kept))
        if len(columns[name]) != len(ids):
            raise ValueError(f"column {name} lacks rows")
    return kept, columns
