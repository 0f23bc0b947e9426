"""Settings of a control chosen by the checked examples: cross-validated log-likelihood."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tutelage.crossfit import stratified_folds
from tutelage.functional.portable_state import load_state
from tutelage.randomness import mixed_seed
from tutelage.storage.checkpoint import name_damaged_file
from tutelage.storage.json_files import write_json
from tutelage_cli.train.arms import build_tutor, device_of
from tutelage_cli.train.controls.rows import Repeated, fed
from tutelage_cli.train.course import seconds_now
from tutelage_cli.train.evaluation import log_likelihood
from tutelage_cli.train.job import Job
from tutelage_cli.train.material import Material, Streams

FOLDS = 4
"""parts of the checked examples, each in turn judges students of the others"""
CHOSEN = "chosen.json"
_PART = 11
"""keeps the seed of these folds apart from others"""


@dataclass(frozen=True)
class Case:
    """What the course of a control is made from."""

    job: Job
    material: Material
    streams: Streams
    stopped: Callable[[], bool]


@dataclass(frozen=True)
class Choice:
    """What was chosen for a control, and by what."""

    lr: float
    weight_decay: float
    steps: int
    seconds: float = 0.0
    """what choosing took"""
    log_likelihood: float | None = None
    """mean over the checked examples, each by a student that was not trained on it"""


class Stopped(Exception):  # noqa: N818 - it is no error
    """Choosing was stopped."""


def choose(
    case: Case,
    grid: Sequence[tuple[float, float]],
    marks: Sequence[int],
    rate: Callable[[float, int], float],
    start: Mapping[str, Any] | None = None,
) -> Choice:
    """The settings under which students of some checked examples predict the others best.

    Every pair of the grid trains a student for each fold, which is judged after each of the
    marks. The first of the best is kept in the control's folder. A single checked example can
    judge nothing: the first pair and mark are taken then.
    """
    file = case.job.folder / CHOSEN
    if file.exists():
        return _read(file)
    checked = case.material.held_out
    first = Choice(*grid[0], marks[0])
    if len(checked) < 2:
        return first
    device = device_of(case.job.settings)
    began, best = seconds_now(device), -math.inf
    for lr, decay in grid:
        found = _judged(case, lr, decay, marks, rate, start)
        for steps, likelihood in zip(marks, found, strict=True):
            if likelihood > best:  # not a number: never
                best = likelihood
                first = Choice(lr, decay, steps, log_likelihood=likelihood)
    chosen = replace(first, seconds=seconds_now(device) - began)
    write_json(file, asdict(chosen))
    return chosen


def _judged(
    case: Case,
    lr: float,
    decay: float,
    marks: Sequence[int],
    rate: Callable[[float, int], float],
    start: Mapping[str, Any] | None,
) -> list[float]:
    """Train a student for each fold."""
    checked, seed = case.material.held_out, case.job.seed
    folds = min(FOLDS, len(checked))
    fold = stratified_folds(checked.labels, folds, seed=mixed_seed(_PART, seed))
    totals = torch.zeros(len(marks), dtype=torch.float64)
    for k in range(folds):
        if case.stopped():
            raise Stopped
        settings = replace(case.job.settings, lr=lr, weight_decay=decay)
        tutor = build_tutor("untaught", seed, case.material.train, settings, marks[-1])
        if start is not None:
            load_state(tutor.student, start, "student")
        ours, others = (checked.rows(part.nonzero()[:, 0]) for part in (fold == k, fold != k))
        feed = Repeated(fed(case.streams.train, others), marks[-1])
        tutor.student.train()
        for step, batch in enumerate(feed.epoch(0)):
            for group in tutor.optimizer.param_groups:
                group["lr"] = rate(lr, step)
            tutor.step(batch)
            if step + 1 in marks:
                said = log_likelihood(tutor, fed(case.streams.held_out, ours, alone=True))
                totals[list(marks).index(step + 1)] += len(ours) * said
    return (totals / len(checked)).tolist()


def _read(file: Path) -> Choice:
    with name_damaged_file(file, "Delete it, and it is made again."):
        return Choice(**json.loads(file.read_text(encoding="utf-8")))
