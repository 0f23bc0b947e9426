"""How each control is trained: on which rows and targets, from which weights, how long."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from tutelage.crossfit import ForwardCorrected, label_issues, label_posterior
from tutelage.functional.portable_state import load_state
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.storage.checkpoint import check_checksum, load_checkpoint, name_damaged_file
from tutelage.teachers import OutOfFoldTargets
from tutelage.training.tutor import Tutor
from tutelage_cli.data.in_memory import InMemory
from tutelage_cli.train.arms import build_tutor, device_of
from tutelage_cli.train.controls.choosing import Case, Choice, choose
from tutelage_cli.train.controls.folds import (
    CORRECTED,
    PLAIN,
    REFINED,
    Unseen,
    fold_seed,
    fold_settings,
    folds_of,
    read_unseen,
    refined_by,
    transitions_of,
)
from tutelage_cli.train.controls.rates import RATES
from tutelage_cli.train.controls.rows import Repeated, Targeted, WithChecked, fed, together
from tutelage_cli.train.course import Course, Feed
from tutelage_cli.train.job import learning_rate
from tutelage_cli.train.names import OUT_OF_FOLD
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.tracked import ById, by_id, fresh
from tutelage_cli.train.train_state import TrainState

ONLY_RATES, ONLY_DECAYS = (1.0, 0.1), (1.0, 10.0)
"""tried for checked-only: parts of the run's learning rate and weight decay, each with each"""
ONLY_STEPS = 1 / 8
"""of the run's steps: how long each is tried"""
WEIGHTS = ("weight_right", "weight_wrong")
"""what the untaught student's epochs say of a teacher"""
TUNED_RATES = (0.3, 0.1, 0.03)
"""tried for fine-tuned: parts of the run's learning rate, which stays as it is"""
TUNED_STEPS = (1 / 40, 1 / 16, 1 / 8)
"""tried for fine-tuned: shares of the run's steps"""


def course_of(case: Case) -> Course:
    """The training of one student.

    Note: raises ``choosing.Stopped`` where it is stopped while settings are chosen.
    """
    return COURSES.get(case.job.arm, _taught)(case)


def _taught(case: Case) -> Course:
    job, train, settings = case.job, case.material.train, case.job.settings
    steps = len(case.streams.train) * settings.epochs
    return Course(
        build_tutor(job.arm, job.seed, train, settings, steps),
        case.streams.train,
        _rates(settings),
        by_id(train, case.material.wrong),
        TrainState(tracked=fresh(len(train), settings.epochs)),
    )


def _rates(settings: TrainSettings) -> tuple[float, ...]:
    return tuple(learning_rate(settings, epoch) for epoch in range(settings.epochs))


def _budgeted(
    case: Case,
    feed: Feed,
    known: ById,
    seconds: float = 0.0,
    objective: Objective = cross_entropy,
    weights: Tensor | None = None,
) -> Course:
    """Plain training for as many steps as the untaught student takes."""
    job, settings = case.job, case.job.settings
    length = len(case.streams.train)
    steps, train = length * settings.epochs, case.material.train
    return Course(
        build_tutor("untaught", job.seed, train, settings, steps, objective=objective),
        Repeated(feed, length),
        _rates(settings),
        known,
        TrainState(seconds=seconds),
        weights,
        on_checked=True,
    )


def _with_checked(case: Case, kept: Tensor | None = None) -> tuple[InMemory, ById]:
    """Put the checked examples after the training examples, or after some of them."""
    train = case.material.train if kept is None else case.material.train.rows(kept)
    whole = together(train, case.material.held_out)
    return fed(case.streams.train, whole), by_id(whole, None)


def _checked_included(case: Case) -> Course:
    return _budgeted(case, *_with_checked(case))


def _checked_only(case: Case) -> Course:
    checked, settings = case.material.held_out, case.job.settings
    grid = [
        (rate * settings.lr, decay * settings.weight_decay)
        for rate in ONLY_RATES
        for decay in ONLY_DECAYS
    ]
    steps = _shares(case, (ONLY_STEPS,))

    def rate(lr: float, step: int) -> float:
        return learning_rate(replace(settings, lr=lr, epochs=steps[0]), step)

    chosen = choose(case, grid, steps, rate)
    settings = replace(settings, lr=chosen.lr, weight_decay=chosen.weight_decay)
    case = replace(case, job=replace(case.job, settings=settings))
    feed = fed(case.streams.train, checked)
    return _budgeted(case, feed, by_id(checked, None), chosen.seconds)


def _shares(case: Case, shares: tuple[float, ...]) -> list[int]:
    steps = len(case.streams.train) * case.job.settings.epochs
    return sorted({max(1, round(share * steps)) for share in shares})


def _fine_tuned(case: Case) -> Course:
    job, settings, checked = case.job, case.job.settings, case.material.held_out
    before, start = _untaught(case)
    grid = [(rate * settings.lr, settings.weight_decay) for rate in TUNED_RATES]
    steps = _shares(case, TUNED_STEPS)
    chosen: Choice = choose(case, grid, steps, lambda lr, _: lr, start)
    before.seconds += chosen.seconds
    settings = replace(settings, lr=chosen.lr)
    train = case.material.train
    tutor = build_tutor("untaught", job.seed, train, settings, chosen.steps)
    load_state(tutor.student, start, "student")
    return Course(
        tutor,
        Repeated(fed(case.streams.train, checked), chosen.steps),
        (chosen.lr,),
        by_id(checked, None),
        before,
        on_checked=True,
    )


def _untaught(case: Case) -> tuple[TrainState, dict[str, Tensor]]:
    """Read where the untaught student of the seed ended."""
    job = case.job.of("untaught")
    with name_damaged_file(job.checkpoint, f"Delete {job.folder}, then go on with --resume."):
        state = load_checkpoint(job.checkpoint, device_of(case.job.settings))
        standing = TrainState(**state["standing"])
        standing.require_numbers()
        standing.tracked = None
        standing.history = [
            {name: value for name, value in entry.items() if name not in WEIGHTS}
            for entry in standing.history
        ]
        return standing, check_checksum("tutor", state)["student"]


def _early_stopped(case: Case) -> Course:
    job, untaught = case.job, case.job.of("untaught")
    before, _ = _untaught(case)
    with name_damaged_file(
        untaught.best, f"Delete {untaught.folder}, then go on with --resume."
    ):
        kept = load_checkpoint(untaught.best, device_of(job.settings))
        epoch, student = kept["epoch"], check_checksum("student", kept)
    train, settings = case.material.train, job.settings
    tutor = build_tutor("untaught", job.seed, train, settings, 1)
    load_state(tutor.student, student, "student")
    start = replace(deepcopy(before), epoch=epoch, history=before.history[:epoch])
    return Course(tutor, case.streams.train, (), by_id(train, None), start)


def _pruned(case: Case) -> Course:
    unseen = read_unseen(case.job, PLAIN, case.material)
    found = label_issues(unseen.train, case.material.train.labels)
    feed, known = _with_checked(case, (~found).nonzero()[:, 0])
    return _budgeted(case, feed, known, unseen.seconds, weights=(~found).float())


def _transitions(case: Case, *, refined: bool) -> tuple[Tensor, float]:
    """What label each class gets, as checked examples or all examples show."""
    plain = read_unseen(case.job, PLAIN, case.material)
    rough = transitions_of(plain, case.material)
    if not refined:
        return rough, plain.seconds
    unseen = read_unseen(case.job, CORRECTED, case.material)
    return refined_by(unseen, case.material, rough), plain.seconds + unseen.seconds


def _corrected(
    case: Case, kept: Tensor | None = None, *, refined: bool = False
) -> tuple[Feed, ById, Objective, float]:
    """Prepare gold loss correction on the training examples, or on some of them."""
    transitions, seconds = _transitions(case, refined=refined)
    given, checked = case.material.train.labels, case.material.held_out.labels
    given = given if kept is None else given[kept]
    feed, known = _with_checked(case, kept)
    targets = torch.cat([given, len(transitions) + checked])
    objective = WithChecked(ForwardCorrected(transitions))
    return Targeted(feed, targets), known, objective, seconds


def _forward_corrected(case: Case) -> Course:
    feed, known, objective, seconds = _corrected(case)
    return _budgeted(case, feed, known, seconds, objective)


def _second_round(case: Case) -> tuple[Unseen, Tensor, float]:
    """Read what the refined folds predict.

    Returns:
        That, the transitions it refines, and the seconds of all folds.
    """
    rounds = [read_unseen(case.job, arm, case.material) for arm in (PLAIN, CORRECTED, REFINED)]
    rough = transitions_of(rounds[0], case.material)
    transitions = refined_by(rounds[-1], case.material, rough)
    return rounds[-1], transitions, sum(unseen.seconds for unseen in rounds)


def _cross_fitted(case: Case) -> Course:
    train, checked = case.material.train, case.material.held_out
    unseen, transitions, seconds = _second_round(case)
    believed = label_posterior(unseen.train, transitions, train.labels)
    weights = believed.gather(1, train.labels[:, None])[:, 0]
    right = F.one_hot(checked.labels, len(train.classes)).to(believed)
    feed, known = _with_checked(case)
    feed = Targeted(feed, torch.cat([believed, right]))
    return _budgeted(case, feed, known, seconds, weights=weights)


def _out_of_fold(case: Case) -> Course:
    """Train under a teacher of out-of-fold predictions, which starts at their closed form."""
    unseen, transitions, seconds = _second_round(case)
    train, job = case.material.train, case.job
    teacher = OutOfFoldTargets(train.ids, unseen.train, train.labels, transitions=transitions)
    steps = len(case.streams.train) * job.settings.epochs
    taught = _taught(case)
    tutor = build_tutor(job.arm, job.seed, train, job.settings, steps, teacher=teacher)
    start = replace(taught.start, seconds=seconds)
    return replace(taught, tutor=tutor, start=start)


def _fold_of(case: Case) -> tuple[Tensor, TrainSettings]:
    rows = (folds_of(case.material, case.job.seed) != case.job.fold).nonzero()[:, 0]
    return rows, fold_settings(case.job.settings)


def _fold(case: Case) -> Course:
    rows, settings = _fold_of(case)
    train = case.material.train.rows(rows)
    feed = fed(case.streams.train, train)
    return _of_fold(case, settings, feed, by_id(train, None), cross_entropy)


def _corrected_fold(case: Case) -> Course:
    rows, settings = _fold_of(case)
    feed, known, objective, _ = _corrected(case, rows, refined=case.job.arm == REFINED)
    return _of_fold(case, settings, feed, known, objective)


def _of_fold(
    case: Case, settings: TrainSettings, feed: Feed, known: ById, objective: Objective
) -> Course:
    seed, train = fold_seed(case.job), case.material.train
    steps = len(feed) * settings.epochs
    tutor: Tutor = build_tutor("untaught", seed, train, settings, steps, objective=objective)
    return Course(tutor, feed, _rates(settings), known)


def _of_rate(case: Case) -> Course:
    untaught = _taught(replace(case, job=case.job.of("untaught")))
    return replace(untaught, start=TrainState())


COURSES: dict[str, Callable[[Case], Course]] = {
    "checked-only": _checked_only,
    "fine-tuned": _fine_tuned,
    "checked-included": _checked_included,
    "early-stopped": _early_stopped,
    "pruned": _pruned,
    "forward-corrected": _forward_corrected,
    "cross-fitted": _cross_fitted,
    OUT_OF_FOLD: _out_of_fold,
    PLAIN: _fold,
    CORRECTED: _corrected_fold,
    REFINED: _corrected_fold,
    RATES: _of_rate,
}
"""of the arms that are no taught students, by name; all others are taught"""
