"""How the students of folds are trained, each stage from where the one before it ended."""

from collections.abc import Callable
from dataclasses import replace

from tutelage.crossfit import FoldTraining
from tutelage.crossfit.fold_settings import FoldSettings
from tutelage.crossfit.stages import FoldStages
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
    chosen_settings,
    chosen_trial,
    fold_seed,
    fold_stages_of,
    read_out_of_fold,
    seconds_of_trials,
    tried_by,
)
from tutelage_cli.train.controls.plan_parts import rates_of
from tutelage_cli.train.controls.rows import Repeated, Targeted, batches_like
from tutelage_cli.train.controls.tuning import ControlInputs
from tutelage_cli.train.example_history import ExampleIndex, example_index
from tutelage_cli.train.job import Job
from tutelage_cli.train.plan import BatchSource, TrainingPlan
from tutelage_cli.train.train_state import TrainState


def regularised(inputs: ControlInputs) -> TrainingPlan:
    """Training as the student of a fold that predicts given labels best, on all examples."""
    job, index = inputs.job, example_index(inputs.material.train, None)
    settings = chosen_settings(job, stronger=True)
    plan = _plan(inputs, inputs.streams.train, index, settings, cross_entropy, job.seed)
    seconds = seconds_of_trials(job, stronger=True)
    return replace(plan, start=TrainState(seconds=seconds))


def _of_trial(inputs: ControlInputs) -> TrainingPlan:
    return _plan_of(inputs, _data(inputs).trial(tried_by(inputs.job)))


def _plain_of_fold(inputs: ControlInputs) -> TrainingPlan:
    plan = _plan_of(inputs, _data(inputs).plain(_fold(inputs), chosen_settings(inputs.job)))
    if inputs.job.fold:
        return plan
    trained = replace(plan, rates=())  # the chosen trial is this student: no epoch is left
    return _continued(inputs, trained, chosen_trial(inputs.job))


def _corrected(inputs: ControlInputs) -> TrainingPlan:
    """Go on from a fold's untaught student under the corrected loss."""
    data, settings = _data(inputs), chosen_settings(inputs.job)
    transitions = data.transitions(read_out_of_fold(inputs.job, PLAIN, inputs.material))
    plan = _plan_of(inputs, data.corrected(_fold(inputs), settings, transitions))
    return _continued(inputs, plan, inputs.job.with_arm(PLAIN, inputs.job.fold))


def _distilled(inputs: ControlInputs) -> TrainingPlan:
    """Train on the posteriors of other folds, which students that did not see them gave."""
    data, settings = _data(inputs), chosen_settings(inputs.job)
    corrected, plain = (
        read_out_of_fold(inputs.job, arm, inputs.material) for arm in (CORRECTED, PLAIN)
    )
    posterior = data.posterior(corrected, data.refined(corrected, plain))
    return _plan_of(inputs, data.distilled(_fold(inputs), settings, posterior))


def _data(inputs: ControlInputs) -> FoldStages:
    return fold_stages_of(inputs.material, inputs.job)


def _fold(inputs: ControlInputs) -> int:
    assert inputs.job.fold is not None
    return inputs.job.fold


def _plan_of(inputs: ControlInputs, training: FoldTraining) -> TrainingPlan:
    """The plan of a student of a fold."""
    material, rows = inputs.material, training.rows
    count = len(material.train)
    examples = material.train.rows(rows[rows < count])
    if len(examples) < len(rows):
        checked = material.held_out.rows(rows[rows >= count] - count)
        examples = examples.concatenated(checked)
    batches = Targeted(batches_like(inputs.streams.train, examples), training.targets[rows])
    index, settings = example_index(examples, None), training.settings
    return _plan(inputs, batches, index, settings, training.objective, fold_seed(inputs.job))


def _plan(
    inputs: ControlInputs,
    batches: BatchSource,
    index: ExampleIndex,
    of_folds: FoldSettings,
    objective: Objective,
    seed: int,
) -> TrainingPlan:
    """Train in parts, between which the learning rate decays however short they are."""
    steps = of_folds.steps(len(batches) * inputs.job.settings.epochs)
    batches = Repeated(batches, max(1, round(steps / PARTS)))
    decay = of_folds.decay_factor * inputs.job.settings.weight_decay
    settings = replace(inputs.job.settings, epochs=PARTS, weight_decay=decay)
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
    CORRECTED: _corrected,
    DISTILLED: _distilled,
}
"""of the students that are not evaluated, by name"""
