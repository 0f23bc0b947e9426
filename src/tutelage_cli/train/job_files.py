"""Reads and checks the files in a finished student's folder."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tutelage.storage.checkpoint import name_damaged_file
from tutelage_cli.train.controls.job_stages import epochs_of
from tutelage_cli.train.evaluation import read_examples
from tutelage_cli.train.example_history import HISTORY, read_example_history
from tutelage_cli.train.job import Job

EPOCH_KEYS = ("epoch", "test_accuracy", "train_loss")
"""what every line of ``metrics.jsonl`` has"""
WEIGHT_KEYS = ("weight_right", "weight_wrong")
NUMBERS = {"id": "iu", "given": "iu", "predicted": "iu", "loss": "f", "weight": "f"}
"""columns of ``examples.parquet`` and the kinds of numpy types that they may have"""


def read_result(job: Job) -> dict[str, float | int]:
    """The content of a student's ``result.json``."""
    file = job.folder / "result.json"
    with name_damaged_file(file, remedy_of(job)):
        result = json.loads(_read_text(file))
        _require_numbers(result, "test_accuracy", "held_out_accuracy", "seconds")
        if not result["seconds"] > 0:
            raise ValueError(f"seconds are {result['seconds']}")
    return result


def read_history(job: Job) -> list[dict[str, float | int]]:
    """The metrics of a student after each epoch."""
    file = job.folder / "metrics.jsonl"
    with name_damaged_file(file, remedy_of(job)):
        lines = _read_text(file).splitlines()
        history = [json.loads(line) for line in lines]
        least, most = epochs_of(job)
        if not least <= len(history) <= most:
            raise ValueError(f"it has {len(history)} lines, not {most}")
        known = [name for name in WEIGHT_KEYS if name in history[0]]
        for entry in history:
            _require_numbers(entry, *EPOCH_KEYS, *known)
    return history


def read_example_table(job: Job, rows: int | None, classes: int) -> dict[str, np.ndarray]:
    """Prediction, loss and weight of each training example."""
    file = job.folder / "examples.parquet"
    with name_damaged_file(file, remedy_of(job)):
        try:
            table = read_examples(file)
        except OSError as error:  # pyarrow's, of damage
            raise ValueError(str(error)) from error
        rows = len(table["id"]) if rows is None else rows
        kinds = NUMBERS | ({"true": "iu"} if "true" in table else {})
        for name, kind in kinds.items():
            if table[name].dtype.kind not in kind or table[name].shape != (rows,):
                raise ValueError(f"column {name} is not one number for each of {rows} rows")
        for name in kinds.keys() & {"given", "predicted", "true"}:
            if not 0 <= table[name].min() <= table[name].max() < classes:
                raise ValueError(f"column {name} holds what is no class")
    return table


def read_weight_history(job: Job, ids: np.ndarray) -> tuple[list[int], np.ndarray] | None:
    """The weight of each training example in the kept epochs."""
    file = job.folder / HISTORY
    if not file.exists():
        return None
    with name_damaged_file(file, remedy_of(job)):
        epochs, history = read_example_history(file, ids)
    return epochs, history["weights"]


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(error.strerror) from error


def _require_numbers(mapping: Any, *names: str) -> None:
    if not isinstance(mapping, Mapping):
        raise TypeError(f"it holds a {type(mapping).__name__} in place of a mapping")
    for name in (*names, *mapping):
        value = mapping.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name:.50} is {value!r:.50}")
        if name in names and not math.isfinite(value):
            raise ValueError(f"{name} is {value!r:.50}")


def remedy_of(job: Job) -> str:
    """How a damaged result of a student is made again."""
    return (
        f"Delete {job.folder / 'result.json'}, then go on with --resume {job.run}: it is made "
        "again from the student's checkpoint."
    )
