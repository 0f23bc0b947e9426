"""How the students of folds are trained, each stage from where the one before it ended."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from tutelage.crossfit.fold_settings import (
    FoldSettings,
    corrected_settings,
    distilled_settings,
)
from tutelage.functional.portable_state import load_state
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.storage.checkpoint import check_checksum, load_checkpoint, name_damaged_file
from tutelage_cli.train.arms import build_tutor, device_of
from tutelage_cli.train.controls.folds import (
    CORRECTED,
    DISTILLED,
    PARTS,
    PLAIN,
    TRIALS,
    TUNED,
    checked_folds_of,
    chosen_settings,
    chosen_trial,
    fold_seed,
    folds_of,
    posteriors_of,
    read_out_of_fold,
    refined_by,
    seconds_of_trials,
    transitions_of,
    tried_by,
)
from tutelage_cli.train.controls.plan_parts import corrected, on_posteriors, rates_of
from tutelage_cli.train.controls.rows import Repeated, batches_like
from tutelage_cli.train.controls.tuning import ControlInputs
from tutelage_cli.train.example_history import ExampleIndex, example_index
from tutelage_cli.train.job import Job
from tutelage_cli.train.plan import BatchSource, TrainingPlan
from tutelage_cli.train.train_state import TrainState

TUNED_RATE, TUNED_STEPS = 0.1, 1 / 16
"""of the run's learning rate and of its steps: how the tuned students of folds go on, the
middle of what is tried for fine-tuning"""


def regularised(inputs: ControlInputs) -> TrainingPlan:
    """Training as the student of a fold that predicts given labels best, on all examples."""
    job, rows = inputs.job, torch.arange(len(inputs.material.train))
    plan = _plain(inputs, rows, chosen_settings(job, stronger=True), job.seed)
    seconds = seconds_of_trials(job, stronger=True)
    return replace(plan, start=TrainState(seconds=seconds))


def _plain_of_fold(inputs: ControlInputs) -> TrainingPlan:
    rows = _others(inputs, inputs.job.fold)
    plan = _plain(inputs, rows, chosen_settings(inputs.job), fold_seed(inputs.job))
    if inputs.job.fold:
        return plan
    trained = replace(plan, rates=())  # the chosen trial is this student: no epoch is left
    return _continued(inputs, trained, chosen_trial(inputs.job))


def _of_trial(inputs: ControlInputs) -> TrainingPlan:
    return _plain(inputs, _others(inputs, 0), tried_by(inputs.job), fold_seed(inputs.job))


def _plain(
    inputs: ControlInputs, rows: Tensor, regime: FoldSettings, seed: int
) -> TrainingPlan:
    train = inputs.material.train.rows(rows)
    return _plan(
        inputs,
        batches_like(inputs.streams.train, train),
        example_index(train, None),
        regime,
        seed=seed,
    )


def _others(inputs: ControlInputs, fold: int | None) -> Tensor:
    """The training examples of other folds."""
    return (folds_of(inputs.material, inputs.job) != fold).nonzero()[:, 0]


def _checked_rows(inputs: ControlInputs) -> Tensor:
    """The checked examples of other folds; all of them where these have none."""
    own_fold = checked_folds_of(inputs.material, inputs.job) == inputs.job.fold
    return (own_fold if bool(own_fold.all()) else ~own_fold).nonzero()[:, 0]


def _tuned(inputs: ControlInputs) -> TrainingPlan:
    """Go on from a fold's untaught student with the checked examples of other folds."""
    checked = inputs.material.held_out.rows(_checked_rows(inputs))
    steps = round(TUNED_STEPS * len(inputs.streams.train) * inputs.job.settings.epochs)
    batches = Repeated(batches_like(inputs.streams.train, checked), max(1, steps))
    plan = _plan(inputs, batches, example_index(checked, None), None)
    plan = replace(plan, rates=(TUNED_RATE * inputs.job.settings.lr,))
    return _continued(inputs, plan, _plain_job(inputs))


def _corrected(inputs: ControlInputs) -> TrainingPlan:
    """Go on from a fold's untaught student under the corrected loss."""
    rows = _others(inputs, inputs.job.fold)
    batches, index, objective = corrected(
        inputs, _transitions(inputs), rows, _checked_rows(inputs)
    )
    regime = corrected_settings(chosen_settings(inputs.job))
    plan = _plan(inputs, batches, index, regime, objective)
    return _continued(inputs, plan, _plain_job(inputs))


def _distilled(inputs: ControlInputs) -> TrainingPlan:
    """Train on the posteriors of other folds, which students that did not see them gave."""
    material = inputs.material
    rows, checked = _others(inputs, inputs.job.fold), _checked_rows(inputs)
    unseen = read_out_of_fold(inputs.job, CORRECTED, material)
    transitions = refined_by(unseen, material, _transitions(inputs))
    posteriors = posteriors_of(unseen, material, transitions)
    batches, index = on_posteriors(inputs, posteriors, rows, checked)
    return _plan(inputs, batches, index, distilled_settings(chosen_settings(inputs.job)))


def _plain_job(inputs: ControlInputs) -> Job:
    return inputs.job.with_arm(PLAIN, inputs.job.fold)


def _transitions(inputs: ControlInputs) -> Tensor:
    """What label each class gets, as the checked examples show."""
    plain = read_out_of_fold(inputs.job, PLAIN, inputs.material)
    return transitions_of(plain, inputs.material)


def _plan(
    inputs: ControlInputs,
    batches: BatchSource,
    index: ExampleIndex,
    regime: FoldSettings | None,
    objective: Objective = cross_entropy,
    *,
    seed: int | None = None,
) -> TrainingPlan:
    """Train in parts, between which the learning rate decays however short they are.

    Without a regime: for the batches of the feed, which are the first part.
    """
    settings = replace(inputs.job.settings, epochs=PARTS)
    seed = fold_seed(inputs.job) if seed is None else seed
    if regime is not None:
        steps = regime.steps(len(batches) * inputs.job.settings.epochs)
        batches = Repeated(batches, max(1, round(steps / PARTS)))
        settings = replace(settings, weight_decay=regime.decay * settings.weight_decay)
    total = len(batches) * PARTS
    train = inputs.material.train
    tutor = build_tutor("untaught", seed, train, settings, total, objective=objective)
    return TrainingPlan(tutor, batches, rates_of(settings), index)


def _continued(inputs: ControlInputs, plan: TrainingPlan, before: Job) -> TrainingPlan:
    """Start from where another student ended."""
    remedy = f"Delete {before.folder}, then go on with --resume."
    with name_damaged_file(before.checkpoint, remedy):
        checkpoint = load_checkpoint(before.checkpoint, device_of(inputs.job.settings))
        student = check_checksum("tutor", checkpoint)["student"]
    load_state(plan.tutor.student, student, "student")
    return plan


FOLD_PLANS: dict[str, Callable[[ControlInputs], TrainingPlan]] = {
    TRIALS: _of_trial,
    PLAIN: _plain_of_fold,
    TUNED: _tuned,
    CORRECTED: _corrected,
    DISTILLED: _distilled,
}
"""of the students that are not evaluated, by name"""
