"""How each control is trained: on which rows and targets, from which weights, how long."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from tutelage.crossfit import label_issues, label_posterior
from tutelage.functional.portable_state import load_state
from tutelage.storage.checkpoint import check_checksum, load_checkpoint, name_damaged_file
from tutelage.teachers import OutOfFoldTargets
from tutelage_cli.train.arms import build_tutor, device_of
from tutelage_cli.train.controls.building import (
    budgeted,
    corrected,
    rates_of,
    shares_of,
    with_checked,
)
from tutelage_cli.train.controls.choosing import Case, Choice, choose
from tutelage_cli.train.controls.fold_courses import FOLD_COURSES
from tutelage_cli.train.controls.folds import PLAIN, conditioned, read_unseen, transitions_of
from tutelage_cli.train.controls.rates import RATES
from tutelage_cli.train.controls.rows import Repeated, Targeted, fed
from tutelage_cli.train.controls.selection import Selected, select
from tutelage_cli.train.course import Course
from tutelage_cli.train.job import learning_rate
from tutelage_cli.train.names import OUT_OF_FOLD
from tutelage_cli.train.tracked import by_id, fresh
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
        rates_of(settings),
        by_id(train, case.material.wrong),
        TrainState(tracked=fresh(len(train), settings.epochs)),
    )


def _checked_included(case: Case) -> Course:
    return budgeted(case, *with_checked(case))


def _checked_only(case: Case) -> Course:
    checked, settings = case.material.held_out, case.job.settings
    grid = [
        (rate * settings.lr, decay * settings.weight_decay)
        for rate in ONLY_RATES
        for decay in ONLY_DECAYS
    ]
    steps = shares_of(case, (ONLY_STEPS,))

    def rate(lr: float, step: int) -> float:
        return learning_rate(replace(settings, lr=lr, epochs=steps[0]), step)

    chosen = choose(case, grid, steps, rate)
    settings = replace(settings, lr=chosen.lr, weight_decay=chosen.weight_decay)
    case = replace(case, job=replace(case.job, settings=settings))
    feed = fed(case.streams.train, checked)
    return budgeted(case, feed, by_id(checked, None), chosen.seconds)


def _fine_tuned(case: Case) -> Course:
    job, settings, checked = case.job, case.job.settings, case.material.held_out
    before, start = _untaught(case)
    grid = [(rate * settings.lr, settings.weight_decay) for rate in TUNED_RATES]
    steps = shares_of(case, TUNED_STEPS)
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
    feed, known = with_checked(case, (~found).nonzero()[:, 0])
    return budgeted(case, feed, known, unseen.seconds, weights=(~found).float())


def _forward_corrected(case: Case) -> Course:
    plain = read_unseen(case.job, PLAIN, case.material)
    transitions = conditioned(transitions_of(plain, case.material, shrinkage=0.0))
    feed, known, objective = corrected(case, transitions)
    return budgeted(case, feed, known, plain.seconds, objective)


def _cross_fitted(case: Case) -> Course:
    """Train on the posteriors of labels, or fall back on what is shown to be better."""
    selected = select(case)
    if selected.way in FALLBACKS:
        course = FALLBACKS[selected.way](case)
        of_untaught = course.start.seconds if selected.way == "fine-tuned" else 0.0
        course.start.seconds = of_untaught + selected.seconds
        return course
    believed, weights = _believed(case, selected)
    right = F.one_hot(case.material.held_out.labels, believed.shape[1]).to(believed)
    feed, known = with_checked(case)
    feed = Targeted(feed, torch.cat([believed, right]))
    return budgeted(case, feed, known, selected.seconds, weights=weights)


def _as_untaught(case: Case) -> Course:
    return budgeted(case, case.streams.train, by_id(case.material.train, None))


def _believed(case: Case, selected: Selected) -> tuple[Tensor, Tensor]:
    """The posteriors of all labels, and how likely each given label is right."""
    given = case.material.train.labels
    believed = label_posterior(selected.unseen.train, selected.transitions, given)
    return believed, believed.gather(1, given[:, None])[:, 0]


def _out_of_fold(case: Case) -> Course:
    """Train under a teacher of out-of-fold predictions, which starts at their closed form."""
    _, unseen, transitions, seconds = select(case)
    train, job = case.material.train, case.job
    teacher = OutOfFoldTargets(train.ids, unseen.train, train.labels, transitions=transitions)
    steps = len(case.streams.train) * job.settings.epochs
    taught = _taught(case)
    tutor = build_tutor(job.arm, job.seed, train, job.settings, steps, teacher=teacher)
    start = replace(taught.start, seconds=seconds)
    return replace(taught, tutor=tutor, start=start)


def _of_rate(case: Case) -> Course:
    untaught = _taught(replace(case, job=case.job.of("untaught")))
    return replace(untaught, start=TrainState())


FALLBACKS: dict[str, Callable[[Case], Course]] = {
    "untaught": _as_untaught,
    "fine-tuned": _fine_tuned,
}
"""what is trained where cross-fitting is shown to be worse"""
COURSES: dict[str, Callable[[Case], Course]] = {
    "checked-only": _checked_only,
    "fine-tuned": _fine_tuned,
    "checked-included": _checked_included,
    "early-stopped": _early_stopped,
    "pruned": _pruned,
    "forward-corrected": _forward_corrected,
    "cross-fitted": _cross_fitted,
    OUT_OF_FOLD: _out_of_fold,
    RATES: _of_rate,
    **FOLD_COURSES,
}
"""of the arms that are no taught students, by name; all others are taught"""
