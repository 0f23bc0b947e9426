"""Settings of a control chosen by the checked examples: cross-validated log-likelihood."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from tutelage.crossfit import stratified_folds
from tutelage.functional.portable_state import load_state
from tutelage.randomness import mixed_seed
from tutelage.storage.checkpoint import name_damaged_file
from tutelage.storage.json_files import write_json
from tutelage_cli.train.arms import build_tutor, device_of
from tutelage_cli.train.controls.control_batches import RepeatedBatches, batches_like
from tutelage_cli.train.evaluation import log_likelihood
from tutelage_cli.train.job import Job
from tutelage_cli.train.material import Material, Streams
from tutelage_cli.train.plan import seconds_now

FOLDS = 4
"""folds of the checked examples, each of which evaluates students of the others"""
CHOSEN = "chosen.json"
_PART = 11
"""keeps the seed of these folds apart from others"""


@dataclass(frozen=True)
class ControlInputs:
    """What the plan of a control is made from."""

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
    inputs: ControlInputs,
    grid: Sequence[tuple[float, float]],
    eval_steps: Sequence[int],
    rate: Callable[[float, int], float],
    start: Mapping[str, Any] | None = None,
) -> Choice:
    """The settings under which students of some checked examples predict the others best.

    Every pair of the grid trains a student for each fold, which is evaluated after each of the
    marks. The first of the best is kept in the control's folder. A single checked example can
    decide nothing: the first pair and mark are taken then.
    """
    file = inputs.job.folder / CHOSEN
    if file.exists():
        with name_damaged_file(file, "Delete it, and it is made again."):
            return Choice(**json.loads(file.read_text(encoding="utf-8")))
    checked = inputs.material.held_out
    first = Choice(*grid[0], eval_steps[0])
    if len(checked) < 2:
        return first
    device = device_of(inputs.job.settings)
    started, best = seconds_now(device), -math.inf
    for lr, decay in grid:
        likelihoods = _cross_validated(inputs, lr, decay, eval_steps, rate, start)
        for steps, likelihood in zip(eval_steps, likelihoods, strict=True):
            if likelihood > best:  # not a number: never
                best = likelihood
                first = Choice(lr, decay, steps, log_likelihood=likelihood)
    chosen = replace(first, seconds=seconds_now(device) - started)
    write_json(file, asdict(chosen))
    return chosen


def _cross_validated(
    inputs: ControlInputs,
    lr: float,
    decay: float,
    eval_steps: Sequence[int],
    rate: Callable[[float, int], float],
    start: Mapping[str, Any] | None,
) -> list[float]:
    """Train a student for each fold."""
    checked, seed = inputs.material.held_out, inputs.job.seed
    folds = min(FOLDS, len(checked))
    fold = stratified_folds(checked.labels, folds, seed=mixed_seed(_PART, seed))
    totals = torch.zeros(len(eval_steps), dtype=torch.float64)
    for k in range(folds):
        if inputs.stopped():
            raise Stopped
        settings = replace(inputs.job.settings, lr=lr, weight_decay=decay)
        tutor = build_tutor("untaught", seed, inputs.material.train, settings, eval_steps[-1])
        if start is not None:
            load_state(tutor.student, start, "student")
        validation, train = (
            checked.rows(part.nonzero()[:, 0]) for part in (fold == k, fold != k)
        )
        batches = RepeatedBatches(batches_like(inputs.streams.train, train), eval_steps[-1])
        tutor.student.train()
        for step, batch in enumerate(batches.epoch(0)):
            for group in tutor.optimizer.param_groups:
                group["lr"] = rate(lr, step)
            tutor.step(batch)
            if step + 1 in eval_steps:
                left_out = replace(inputs.streams.held_out, examples=validation)
                likelihood = log_likelihood(tutor, left_out)
                totals[list(eval_steps).index(step + 1)] += len(validation) * likelihood
    return (totals / len(checked)).tolist()
