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

from tutelage.storage.atomic_files import written_whole
from tutelage.training.forward import Record
from tutelage_cli.train.texts import Data

MOST = 32
"""epochs at most that are kept of a run; 8 bytes each for every example"""
LOSS, WEIGHT = 0, 1
HISTORY = "history.parquet"
COLUMNS = ("losses", "weights")
EPOCHS = b"epochs"


def epochs_kept(epochs: int) -> list[int]:
    """The epochs of which losses and weights are kept.

    Args:
        epochs: Of the whole run, at least 1.

    Returns:
        Their numbers, from 1: all where there are at most ``MOST``, else so many, evenly
        spread, the first and the last among them.
    """
    if epochs <= MOST:
        return list(range(1, epochs + 1))
    return [1 + round(place * (epochs - 1) / (MOST - 1)) for place in range(MOST)]


def fresh(rows: int, epochs: int, value: float = 0.0) -> Tensor:
    """Room for what is to be kept.

    Args:
        rows: Training examples, N.
        epochs: Of the whole run.
        value: What it holds at first.

    Returns:
        float32 [2, N, T]: losses and weights at the T epochs of ``epochs_kept``.
    """
    return torch.full((2, rows, len(epochs_kept(epochs))), value)


class ById(NamedTuple):
    """What is known of training examples, by their ids."""

    place: Tensor
    """int64: in the training set"""
    wrong: Tensor | None
    """bool: whether the label shown is wrong; None where that is not known"""


def by_id(images: Data, wrong: Tensor | None) -> ById:
    """Find examples by their ids, as a step names them.

    Args:
        images: The training set, N images.
        wrong: [N] whether a label is wrong; None where that is not known.

    Returns:
        As long as the largest id asks for.
    """
    size = int(images.ids.max()) + 1
    place = torch.zeros(size, dtype=torch.long)
    place[images.ids] = torch.arange(len(images))
    if wrong is None:
        return ById(place, None)
    flags = torch.zeros(size, dtype=torch.bool)
    flags[images.ids] = wrong
    return ById(place, flags)


def keep(tracked: Tensor, record: Record, rows: Tensor, column: int) -> None:
    """Put down what a step showed of its examples, before the student moved.

    Args:
        tracked: [2, N, T], changed in place.
        record: The step.
        rows: [L] where the examples of its rows stand in the training set.
        column: The place of the epoch among those that are kept.
    """
    tracked[LOSS, rows, column] = record.losses.float().cpu()
    tracked[WEIGHT, rows, column] = record.weights.float().cpu()


def write_tracked(folder: Path, images: Data, tracked: Tensor, epochs: int) -> None:
    """Write what was kept, one row for each example.

    Args:
        folder: The student's; ``history.parquet`` there gets ``id``, and lists ``losses`` and
            ``weights`` of T values, and says in its metadata of which epochs these are.
        images: The training set.
        tracked: [2, N, T].
        epochs: Of the whole run.
    """
    kept = epochs_kept(epochs)
    columns: dict[str, pa.Array] = {"id": pa.array(images.ids.numpy())}
    for name, values in zip(COLUMNS, tracked.numpy(), strict=True):
        columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), len(kept))
    table = pa.table(columns).replace_schema_metadata({EPOCHS: json.dumps(kept)})
    with written_whole(folder / HISTORY) as part:
        pq.write_table(table, part)


def read_tracked(path: Path, ids: np.ndarray) -> tuple[list[int], Mapping[str, np.ndarray]]:
    """Read the table that ``write_tracked`` wrote.

    Args:
        path: The Parquet file.
        ids: [N] of the examples that it must be about, in their order.

    Returns:
        The epochs, and ``losses`` and ``weights``, each float32 [N, T].

    Raises:
        ValueError: If it is about others, or does not hold what it should.
    """
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
