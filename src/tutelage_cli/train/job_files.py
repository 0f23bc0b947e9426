"""What a finished student left in its folder, checked as it is read."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tutelage.storage.checkpoint import name_damaged_file
from tutelage_cli.train.controls.stages import epochs_of
from tutelage_cli.train.evaluation import read_examples
from tutelage_cli.train.tracked import HISTORY, read_tracked
from tutelage_cli.train.trainee import Job

OF_EPOCH = ("epoch", "test_accuracy", "train_loss")
"""what every line of ``metrics.jsonl`` has"""
WEIGHTS = ("weight_right", "weight_wrong")
NUMBERS = {"id": "iu", "given": "iu", "predicted": "iu", "loss": "f", "weight": "f"}
"""columns of ``examples.parquet`` and the kinds of numpy types that they may have"""


def result_of(job: Job) -> dict[str, float | int]:
    """What a student came to."""
    file = job.folder / "result.json"
    with name_damaged_file(file, _again(job)):
        result = json.loads(_text(file))
        _require_numbers(result, "test_accuracy", "held_out_accuracy", "seconds")
        if not result["seconds"] > 0:
            raise ValueError(f"seconds are {result['seconds']}")
    return result


def history_of(job: Job) -> list[dict[str, float | int]]:
    """What was measured of a student after each epoch."""
    file = job.folder / "metrics.jsonl"
    with name_damaged_file(file, _again(job)):
        lines = _text(file).splitlines()
        history = [json.loads(line) for line in lines]
        least, most = epochs_of(job)
        if not least <= len(history) <= most:
            raise ValueError(f"it has {len(history)} lines, not {most}")
        known = [name for name in WEIGHTS if name in history[0]]
        for entry in history:
            _require_numbers(entry, *OF_EPOCH, *known)
    return history


def table_of(job: Job, rows: int | None, classes: int) -> dict[str, np.ndarray]:
    """What student and teacher make of each training example."""
    file = job.folder / "examples.parquet"
    with name_damaged_file(file, _again(job)):
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


def tracked_of(job: Job, ids: np.ndarray) -> tuple[list[int], np.ndarray] | None:
    """How a student's teacher weighed each training example over the run.

    Note: raises as ``result_of`` does.
    """
    file = job.folder / HISTORY
    if not file.exists():
        return None
    with name_damaged_file(file, _again(job)):
        epochs, found = read_tracked(file, ids)
    return epochs, found["weights"]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(error.strerror) from error


def _require_numbers(found: Any, *names: str) -> None:
    if not isinstance(found, Mapping):
        raise TypeError(f"it holds a {type(found).__name__} in place of a mapping")
    for name in (*names, *found):
        value = found.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name:.50} is {value!r:.50}")
        if name in names and not math.isfinite(value):
            raise ValueError(f"{name} is {value!r:.50}")


def _again(job: Job) -> str:
    return (
        f"Delete {job.folder / 'result.json'}, then go on with --resume {job.run}: it is made "
        "again from the student's checkpoint."
    )
