"""How the students of folds are trained, each stage from where the one before it ended."""

from collections.abc import Callable
from dataclasses import replace

from tutelage.crossfit import FoldTraining, StagePredictions
from tutelage.crossfit.fold_settings import FoldSettings
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage_cli.train.arms import build_tutor
from tutelage_cli.train.controls.control_batches import (
    RelabelledBatches,
    RepeatedBatches,
    batches_like,
)
from tutelage_cli.train.controls.folds import (
    CHECKPOINTS,
    DISTILLED,
    DISTILLED_TRIALS,
    PLAIN,
    STAGES,
    TRIALS,
    chosen_distilled,
    chosen_settings,
    chosen_trial,
    fold_seed,
    fold_stages_of,
    read_out_of_fold,
    seconds_of_trials,
    tried_by,
)
from tutelage_cli.train.controls.plan_parts import load_trained, rates_of
from tutelage_cli.train.controls.tuning import ControlInputs
from tutelage_cli.train.example_history import ExampleIndex, example_index
from tutelage_cli.train.plan import BatchSource, TrainingPlan, TrainState


def regularised(inputs: ControlInputs) -> TrainingPlan:
    """Training as the student of a fold that predicts given labels best, on all examples."""
    job, index = inputs.job, example_index(inputs.material.train, None)
    settings = chosen_settings(job, stronger=True)
    plan = _plan(inputs, inputs.streams.train, index, settings, cross_entropy, job.seed)
    seconds = seconds_of_trials(job, stronger=True)
    return replace(plan, start=TrainState(seconds=seconds))


def _of_trial(inputs: ControlInputs) -> TrainingPlan:
    data = fold_stages_of(inputs.material, inputs.job)
    return _plan_of(inputs, data.trial(tried_by(inputs.job)))


def _of_stage(inputs: ControlInputs) -> TrainingPlan:
    job, data = inputs.job, fold_stages_of(inputs.material, inputs.job)
    assert job.fold is not None
    if job.arm == DISTILLED:
        settings = chosen_distilled(job, inputs.material)
    else:
        settings = chosen_settings(job)
    training = data.trainings(settings, _before(inputs, job.arm))[job.fold]
    plan = _plan_of(inputs, training)
    if training.is_trial:  # the chosen one, which is trained: no epoch is left
        load_trained(plan.tutor, chosen_trial(job))
        return replace(plan, rates=())
    if training.start:
        load_trained(plan.tutor, job.with_arm(PLAIN, job.fold))
    return plan


def _of_distilled_trial(inputs: ControlInputs) -> TrainingPlan:
    job, data = inputs.job, fold_stages_of(inputs.material, inputs.job)
    assert job.fold is not None
    trials = data.distilled_trials(chosen_settings(job), _before(inputs, DISTILLED))
    if len(trials) > 1:
        return _plan_of(inputs, trials[job.fold])
    return replace(_plan_of(inputs, trials[0]), rates=())  # nothing to try


def _before(inputs: ControlInputs, arm: str) -> list[StagePredictions]:
    earlier = STAGES[: STAGES.index(arm)]
    return [read_out_of_fold(inputs.job, one, inputs.material) for one in earlier]


def _plan_of(inputs: ControlInputs, training: FoldTraining) -> TrainingPlan:
    """The plan of a student of a fold."""
    material, rows = inputs.material, training.rows
    count = len(material.train)
    examples = material.train.rows(rows[rows < count])
    if len(examples) < len(rows):
        checked = material.held_out.rows(rows[rows >= count] - count)
        examples = examples.concatenated(checked)
    batches = RelabelledBatches(
        batches_like(inputs.streams.train, examples), training.targets[rows]
    )
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
    batches = RepeatedBatches(batches, max(1, round(steps / CHECKPOINTS)))
    decay = of_folds.decay_factor * inputs.job.settings.weight_decay
    settings = replace(inputs.job.settings, epochs=CHECKPOINTS, weight_decay=decay)
    total = len(batches) * CHECKPOINTS
    train = inputs.material.train
    tutor = build_tutor("untaught", seed, train, settings, total, objective=objective)
    return TrainingPlan(tutor, batches, rates_of(settings), index)


FOLD_PLANS: dict[str, Callable[[ControlInputs], TrainingPlan]] = {
    TRIALS: _of_trial,
    DISTILLED_TRIALS: _of_distilled_trial,
    **dict.fromkeys(STAGES, _of_stage),
}
"""of the students that are not evaluated, by name"""
