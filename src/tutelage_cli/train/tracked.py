"""Every training example's loss and weight over a run, as the student's own steps met them."""

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
from tutelage.training.forward import Record
from tutelage_cli.train.texts import Data

MOST = 32
"""epochs at most that are kept of a run; 8 bytes each for every example"""
LOSS, WEIGHT = 0, 1
HISTORY = "history.parquet"
COLUMNS = ("losses", "weights")
EPOCHS = b"epochs"


def epochs_kept(epochs: int) -> list[int]:
    """The epochs of which losses and weights are kept."""
    if epochs <= MOST:
        return list(range(1, epochs + 1))
    return [1 + round(place * (epochs - 1) / (MOST - 1)) for place in range(MOST)]


def fresh(rows: int, epochs: int, value: float = 0.0) -> Tensor:
    """Room for what is to be kept."""
    return torch.full((2, rows, len(epochs_kept(epochs))), value)


class ById(NamedTuple):
    """What is known of training examples, by their ids."""

    place: Tensor
    """int64: in the training set"""
    wrong: Tensor | None
    """bool: whether the label shown is wrong; None where that is not known"""


def by_id(images: Data, wrong: Tensor | None) -> ById:
    """Find examples by their ids, as a step names them."""
    size = int(images.ids.max()) + 1
    place = torch.zeros(size, dtype=torch.long)
    place[images.ids] = torch.arange(len(images))
    if wrong is None:
        return ById(place, None)
    flags = torch.zeros(size, dtype=torch.bool)
    flags[images.ids] = wrong
    return ById(place, flags)


def keep(tracked: Tensor, record: Record, rows: Tensor, column: int) -> None:
    """Put down what a step showed of its examples, before the student moved."""
    tracked[LOSS, rows, column] = record.losses.float().cpu()
    tracked[WEIGHT, rows, column] = record.weights.float().cpu()


def write_tracked(folder: Path, images: Data, tracked: Tensor, epochs: int) -> None:
    """Write what was kept, one row for each example."""
    kept = epochs_kept(epochs)
    columns: dict[str, pa.Array] = {"id": pa.array(images.ids.numpy())}
    for name, values in zip(COLUMNS, tracked.numpy(), strict=True):
        columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), len(kept))
    table = pa.table(columns).replace_schema_metadata({EPOCHS: json.dumps(kept)})
    with atomic_path(folder / HISTORY) as part:
        pq.write_table(table, part)


def read_tracked(path: Path, ids: np.ndarray) -> tuple[list[int], Mapping[str, np.ndarray]]:
    """Read the table that ``write_tracked`` wrote."""
    try:
        table = pq.read_table(path)
    except OSError as error:  # pyarrow's, of damage
        raise ValueError(str(error)) from error
    kept = json.loads((table.schema.metadata or {}).get(EPOCHS, b"[]"))
    if not (isinstance(kept, list) and kept and all(type(epoch) is int for epoch in kept)):
        raise ValueError("it does not say of which epochs it is")
    if not np.array_equal(table["id"].to_numpy(), ids):
        raise ValueError("it is about other examples")
    found = {}
    for name in COLUMNS:
        column = table[name].combine_chunks()
        if column.type != pa.list_(pa.float32(), len(kept)):
            raise ValueError(f"column {name} is not {len(kept)} numbers for each example")
        found[name] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, len(kept))
        if len(found[name]) != len(ids):
            raise ValueError(f"column {name} lacks rows")
    return kept, found
