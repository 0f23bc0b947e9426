"""How each control is trained: on which rows and targets, from which weights, how long."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

from torch import Tensor

from tutelage.crossfit import CrossFitted, label_issues
from tutelage.crossfit.fold_settings import compares_full_run
from tutelage.crossfit.likelihoods import calibrated_log_likelihood
from tutelage.crossfit.transitions import conditioned
from tutelage.functional.portable_state import load_state
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.randomness import seeded
from tutelage.storage.checkpoint import check_checksum, load_checkpoint, name_damaged_file
from tutelage.storage.json_files import write_json
from tutelage.teachers import OutOfFoldTargets
from tutelage_cli.train.arms import build_tutor, device_of
from tutelage_cli.train.controls.control_batches import RepeatedBatches, batches_like
from tutelage_cli.train.controls.fold_plans import FOLD_PLANS, regularised
from tutelage_cli.train.controls.folds import (
    PLAIN,
    STAGES,
    chosen_distilled,
    chosen_settings,
    fold_stages_of,
    predict_probabilities,
    read_out_of_fold,
    seconds_of_folds,
    seconds_of_trials,
)
from tutelage_cli.train.controls.plan_parts import (
    corrected,
    load_trained,
    on_posteriors,
    plain_training,
    rates_of,
    shares_of,
    with_checked,
)
from tutelage_cli.train.controls.rates import RATES
from tutelage_cli.train.controls.tuning import Choice, ControlInputs, choose
from tutelage_cli.train.example_history import empty_history, example_index
from tutelage_cli.train.job import Job, learning_rate
from tutelage_cli.train.names import OUT_OF_FOLD, takes_chosen_decay
from tutelage_cli.train.plan import TrainingPlan, TrainState

STAGE_NAMES = ("plain", "corrected", "distilled")
"""of ``STAGES``, as the pages name their students"""
UNTAUGHT = "untaught"
SELECTED = "selected.json"
CHECKED_ONLY_RATES, CHECKED_ONLY_DECAYS = (1.0, 0.1), (1.0, 10.0)
"""tried for checked-only: parts of the run's learning rate and weight decay, each with each"""
CHECKED_ONLY_STEPS = 1 / 8
"""of the run's steps: how long each is tried"""
WEIGHTS = ("weight_right", "weight_wrong")
"""columns of the untaught student's history that are about a teacher"""
FINE_TUNED_RATES = (0.3, 0.1, 0.03)
"""tried for fine-tuned: parts of the run's learning rate, which stays as it is"""
FINE_TUNED_STEPS = (1 / 40, 1 / 16, 1 / 8)
"""tried for fine-tuned: shares of the run's steps"""


def select(inputs: ControlInputs) -> tuple[CrossFitted, float]:
    """What ``FoldStages.select`` takes, and the seconds of all students that it compares."""
    job, data = inputs.job, fold_stages_of(inputs.material, inputs.job)
    arms = STAGES[: job.settings.rounds + 1]
    stages = [read_out_of_fold(job, arm, inputs.material) for arm in arms]
    settings = chosen_settings(job)
    last = chosen_distilled(job, inputs.material) if job.settings.rounds > 1 else settings
    seconds, full_run = sum(seconds_of_folds(job, arm) for arm in arms), None
    if compares_full_run(settings):
        full_run, of_untaught = _by_untaught(inputs)
        seconds += of_untaught
    found = data.result(settings, last.decay_factor, stages, full_run)
    _, likelihoods = data.select(stages)
    means: dict[str, float] = dict(zip(STAGE_NAMES, likelihoods, strict=False))
    if full_run is not None and bool(full_run.isfinite().all()):
        means[UNTAUGHT] = float(calibrated_log_likelihood(full_run, data.checked).mean())
    kept = {
        "stage": STAGE_NAMES[found.selected],
        "trained_on": _trained_on(found),
        "log_likelihood": means,
    }
    write_json(job.folder / SELECTED, kept)
    return found, seconds


def _trained_on(found: CrossFitted) -> str:
    if found.train_on_given_labels:
        return "given labels"
    return "given labels, loss corrected" if found.correct_loss else "posteriors"


def _by_untaught(inputs: ControlInputs) -> tuple[Tensor, float]:
    """Probabilities of the checked examples by the untaught student, and its seconds."""
    job, train = inputs.job.with_arm(UNTAUGHT), inputs.material.train
    tutor = build_tutor(UNTAUGHT, job.seed, train, job.settings, 1)
    seconds = load_trained(tutor, job)
    return predict_probabilities(tutor, inputs.streams.held_out), seconds


def plan_of(inputs: ControlInputs) -> TrainingPlan:
    """The training of one student.

    Note: raises ``tuning.Stopped`` where it is stopped while settings are chosen.
    """
    return PLANS.get(inputs.job.arm, _taught)(inputs)


def _taught(inputs: ControlInputs) -> TrainingPlan:
    job, train, settings = inputs.job, inputs.material.train, inputs.job.settings
    seconds = 0.0
    if takes_chosen_decay(job.arm, settings.arms):
        job = _with_decay(job, chosen_settings(job, stronger=True).decay_factor)
        seconds, settings = seconds_of_trials(job, stronger=True), job.settings
    steps = len(inputs.streams.train) * settings.epochs
    return TrainingPlan(
        build_tutor(job.arm, job.seed, train, settings, steps),
        inputs.streams.train,
        rates_of(settings),
        example_index(train, inputs.material.wrong),
        TrainState(seconds=seconds, tracked=empty_history(len(train), settings.epochs)),
    )


def _checked_only(inputs: ControlInputs) -> TrainingPlan:
    checked, settings = inputs.material.held_out, inputs.job.settings
    grid = [
        (rate * settings.lr, decay * settings.weight_decay)
        for rate in CHECKED_ONLY_RATES
        for decay in CHECKED_ONLY_DECAYS
    ]
    steps = shares_of(inputs, (CHECKED_ONLY_STEPS,))

    def rate(lr: float, step: int) -> float:
        return learning_rate(replace(settings, lr=lr, epochs=steps[0]), step)

    chosen = choose(inputs, grid, steps, rate)
    settings = replace(settings, lr=chosen.lr, weight_decay=chosen.weight_decay)
    inputs = replace(inputs, job=replace(inputs.job, settings=settings))
    batches = batches_like(inputs.streams.train, checked)
    return plain_training(inputs, batches, example_index(checked, None), chosen.seconds)


def _fine_tuned(inputs: ControlInputs) -> TrainingPlan:
    job, settings, checked = inputs.job, inputs.job.settings, inputs.material.held_out
    before, start = _untaught(inputs)
    grid = [(rate * settings.lr, settings.weight_decay) for rate in FINE_TUNED_RATES]
    steps = shares_of(inputs, FINE_TUNED_STEPS)
    chosen: Choice = choose(inputs, grid, steps, lambda lr, _: lr, start)
    before.seconds += chosen.seconds
    settings = replace(settings, lr=chosen.lr)
    train = inputs.material.train
    tutor = build_tutor(UNTAUGHT, job.seed, train, settings, chosen.steps)
    load_state(tutor.student, start, "student")
    return TrainingPlan(
        tutor,
        RepeatedBatches(batches_like(inputs.streams.train, checked), chosen.steps),
        (chosen.lr,),
        example_index(checked, None),
        before,
        on_checked=True,
    )


def _untaught(inputs: ControlInputs) -> tuple[TrainState, dict[str, Tensor]]:
    """Read where the untaught student of the seed ended."""
    job = inputs.job.with_arm(UNTAUGHT)
    with name_damaged_file(job.checkpoint, f"Delete {job.folder}, then go on with --resume."):
        checkpoint = load_checkpoint(job.checkpoint, device_of(inputs.job.settings))
        state = TrainState(**checkpoint["state"])
        state.require_numbers()
        state.tracked = None
        state.history = [
            {name: value for name, value in entry.items() if name not in WEIGHTS}
            for entry in state.history
        ]
        return state, check_checksum("tutor", checkpoint)["student"]


def _early_stopped(inputs: ControlInputs) -> TrainingPlan:
    job, untaught = inputs.job, inputs.job.with_arm(UNTAUGHT)
    before, _ = _untaught(inputs)
    with name_damaged_file(
        untaught.best, f"Delete {untaught.folder}, then go on with --resume."
    ):
        best = load_checkpoint(untaught.best, device_of(job.settings))
        epoch, student = best["epoch"], check_checksum("student", best)
    train, settings = inputs.material.train, job.settings
    tutor = build_tutor(UNTAUGHT, job.seed, train, settings, 1)
    load_state(tutor.student, student, "student")
    start = replace(deepcopy(before), epoch=epoch, history=before.history[:epoch])
    return TrainingPlan(tutor, inputs.streams.train, (), example_index(train, None), start)


def _pruned(inputs: ControlInputs) -> TrainingPlan:
    out_of_fold = read_out_of_fold(inputs.job, PLAIN, inputs.material)
    issues = label_issues(out_of_fold.train, inputs.material.train.labels)
    batches, index = with_checked(inputs, (~issues).nonzero()[:, 0])
    seconds = seconds_of_folds(inputs.job, PLAIN)
    return plain_training(inputs, batches, index, seconds, weights=(~issues).float())


def _forward_corrected(inputs: ControlInputs) -> TrainingPlan:
    plain = read_out_of_fold(inputs.job, PLAIN, inputs.material)
    data = fold_stages_of(inputs.material, inputs.job)
    transitions = conditioned(data.transitions(plain, shrinkage=0.0))
    batches, index, objective = corrected(inputs, transitions)
    seconds = seconds_of_folds(inputs.job, PLAIN)
    return plain_training(inputs, batches, index, seconds, objective)


def _cross_fitted(inputs: ControlInputs) -> TrainingPlan:
    """Train on posteriors, or on given labels, under the corrected loss or as they are."""
    found, seconds = select(inputs)
    inputs = replace(inputs, job=_with_decay(inputs.job, found.decay_factor))
    given = inputs.material.train.labels
    objective: Objective = cross_entropy
    weights = found.posterior.gather(1, given[:, None])[:, 0]
    if found.train_on_given_labels:
        batches, index = with_checked(inputs)
    elif found.correct_loss:
        batches, index, objective = corrected(inputs, conditioned(found.transitions))
    else:
        batches, index = on_posteriors(inputs, found.posterior)
    return plain_training(inputs, batches, index, seconds, objective, weights=weights)


def _with_decay(job: Job, factor: float) -> Job:
    """With so many times the run's weight decay."""
    decay = factor * job.settings.weight_decay
    return replace(job, settings=replace(job.settings, weight_decay=decay))


def _out_of_fold(inputs: ControlInputs) -> TrainingPlan:
    """Train under a teacher of out-of-fold predictions, which starts at their closed form."""
    found, seconds = select(inputs)
    train, job = inputs.material.train, _with_decay(inputs.job, found.decay_factor)
    out_of_fold = found.stages[found.selected].train
    with seeded(job.seed):
        teacher = OutOfFoldTargets(
            train.ids, out_of_fold, train.labels, transitions=found.transitions
        )
    steps = len(inputs.streams.train) * job.settings.epochs
    taught = _taught(inputs)
    tutor = build_tutor(job.arm, job.seed, train, job.settings, steps, teacher=teacher)
    return replace(taught, tutor=tutor, start=replace(taught.start, seconds=seconds))


def _of_rate(inputs: ControlInputs) -> TrainingPlan:
    untaught = _taught(replace(inputs, job=inputs.job.with_arm(UNTAUGHT)))
    return replace(untaught, start=TrainState())


PLANS: dict[str, Callable[[ControlInputs], TrainingPlan]] = {
    "checked-only": _checked_only,
    "fine-tuned": _fine_tuned,
    "checked-included": lambda inputs: plain_training(inputs, *with_checked(inputs)),
    "early-stopped": _early_stopped,
    "regularised": regularised,
    "pruned": _pruned,
    "forward-corrected": _forward_corrected,
    "cross-fitted": _cross_fitted,
    OUT_OF_FOLD: _out_of_fold,
    RATES: _of_rate,
    **FOLD_PLANS,
}
"""of the arms that are no taught students, by name; all others are taught"""
