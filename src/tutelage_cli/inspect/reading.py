"""Reads and checks the tables that the students of a run wrote."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tutelage.errors import UsageError, nearest
from tutelage.storage.checkpoint import name_damaged_file
from tutelage_cli.data.by_name import CONTENT, LABEL
from tutelage_cli.data.columns import NAME
from tutelage_cli.inspect.example_tables import ExampleTable, HeldOutTable
from tutelage_cli.inspect.run import Run
from tutelage_cli.runner.run_folder import exists
from tutelage_cli.train.evaluation import EXAMPLES, HELD_OUT, TEXT
from tutelage_cli.train.example_history import HISTORY, read_example_history
from tutelage_cli.train.job import Job
from tutelage_cli.train.job_files import remedy_of


def students_of(run: Run, arm: str, seed: int | None) -> list[ExampleTable]:
    """What the finished students of an arm say."""
    if arm not in run.finished:
        raise UsageError(f"Unknown arm '{arm}' of {run.folder}. {nearest(arm, run.finished)}")
    seeds = run.finished[arm] if seed is None else (seed,)
    if seed is not None and not 0 <= seed < run.settings.seeds:
        raise UsageError(
            f"{run.folder} has no seed {seed}. Allowed: 0 to {run.settings.seeds - 1}."
        )
    if not set(seeds) <= set(run.finished[arm]) or not seeds:
        which = arm if seed is None else f"{arm}, seed {seed}"
        raise UsageError(
            f"{run.folder} has no finished student {which} yet. Go on with: tutelage train "
            f"--resume {run.folder}"
        )
    return [_student(run.job(arm, s)) for s in seeds]


def _student(job: Job) -> ExampleTable:
    names = ClassNames()
    held_out = None
    if exists(job.folder / HELD_OUT):
        table = read_examples_of(job, HELD_OUT, names)
        held_out = HeldOutTable(table["loss"], table["weight"])
    table = read_examples_of(job, EXAMPLES, names)
    epochs, past = _past(job, table["id"])
    return ExampleTable(
        student=f"{job.arm}, seed {job.seed}",
        names=table[NAME],
        ids=table["id"].tolist(),
        given=names.of(table["given"]),
        predicted=names.of(table["predicted"]),
        true=names.of(table["true"]) if "true" in table else None,
        losses=table["loss"],
        weights=table["weight"],
        held_out=held_out,
        contents=table.get(CONTENT),
        texts=table.get(TEXT),
        epochs=epochs,
        past_losses=past.get("losses"),
        past_weights=past.get("weights"),
    )


class ClassNames:
    """The names of classes, learned from tables that have them beside numbers."""

    def __init__(self) -> None:
        self.known: dict[int, str] = {}

    def learn(self, numbers: np.ndarray, names: Sequence[str]) -> None:
        """Take the names of some classes."""
        self.known |= dict(zip(numbers.tolist(), names, strict=True))

    def of(self, numbers: np.ndarray) -> list[str]:
        """Name classes."""
        return [self.known.get(number, str(number)) for number in numbers.tolist()]


NUMBERS = {"id": "iu", "given": "iu", "predicted": "iu", "loss": "f", "weight": "f"}
"""columns and the kinds of numpy types that they may have"""


def read_examples_of(job: Job, name: str, classes: ClassNames) -> dict[str, Any]:
    """Read a table of a student's examples, and learn the names of classes from it."""
    file = job.folder / name
    with name_damaged_file(file, remedy_of(job)):
        try:
            table = pq.read_table(file)
        except OSError as error:  # pyarrow's, of damage
            raise ValueError(str(error)) from error
        kinds = NUMBERS | ({"true": "iu"} if "true" in table.column_names else {})
        found: dict[str, Any] = {column: table[column].to_numpy() for column in kinds}
        for column, kind in kinds.items():
            if found[column].dtype.kind not in kind or not len(found[column]):
                raise ValueError(f"column {column} is not one number for each example")
        written = [TEXT] if TEXT in table.column_names else []
        for column in (NAME, CONTENT, LABEL, *written):
            if table[column].type != pa.string() or table[column].null_count:
                raise ValueError(f"column {column} is not one text for each example")
            found[column] = table[column].to_pylist()
        if len(set(found[NAME])) < len(found[NAME]):
            raise ValueError("it names an example twice")
        classes.learn(found["given"], found[LABEL])
    return found


def _past(job: Job, ids: np.ndarray) -> tuple[list[int], Mapping[str, np.ndarray]]:
    file = job.folder / HISTORY
    if not exists(file):
        return [], {}
    with name_damaged_file(file, remedy_of(job)):
        return read_example_history(file, ids)
