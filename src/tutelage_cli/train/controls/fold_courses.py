"""How the students of folds are trained, each stage from where the one before it ended."""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from tutelage.functional.portable_state import load_state
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.storage.checkpoint import check_checksum, load_checkpoint, name_damaged_file
from tutelage_cli.train.arms import build_tutor, device_of
from tutelage_cli.train.controls.building import corrected, rates_of
from tutelage_cli.train.controls.choosing import Case
from tutelage_cli.train.controls.folds import (
    BEFORE,
    CORRECTED,
    PARTS,
    PLAIN,
    REFINED,
    TRIALS,
    TUNED,
    Regime,
    checked_folds_of,
    chosen_regime,
    fold_seed,
    folds_of,
    read_unseen,
    refined_by,
    transitions_of,
    tried_by,
)
from tutelage_cli.train.controls.rows import Repeated, fed
from tutelage_cli.train.course import Course, Feed
from tutelage_cli.train.tracked import ById, by_id

TUNED_RATE, TUNED_STEPS = 0.1, 1 / 16
"""of the run's learning rate and of its steps: how the tuned students of folds go on, the
middle of what is tried for fine-tuning"""
LONGEST_ROUND = 1 / 3
"""of the run's steps: students of folds that go on need no more"""


def _untaught(case: Case) -> Course:
    return _plain(case, case.job.fold, chosen_regime(case.job))


def _of_trial(case: Case) -> Course:
    return _plain(case, 0, tried_by(case.job))


def _plain(case: Case, fold: int | None, regime: Regime) -> Course:
    train = case.material.train.rows(_others(case, fold))
    return _course(case, fed(case.streams.train, train), by_id(train, None), regime)


def _others(case: Case, fold: int | None) -> Tensor:
    """The training examples of other folds."""
    return (folds_of(case.material, case.job.seed) != fold).nonzero()[:, 0]


def _judges(case: Case) -> Tensor:
    """The checked examples of other folds; all of them where these have none."""
    mine = checked_folds_of(case.material, case.job.seed) == case.job.fold
    return (mine if bool(mine.all()) else ~mine).nonzero()[:, 0]


def _tuned(case: Case) -> Course:
    """Go on from a fold's untaught student with the checked examples of other folds."""
    checked = case.material.held_out.rows(_judges(case))
    steps = round(TUNED_STEPS * len(case.streams.train) * case.job.settings.epochs)
    feed = Repeated(fed(case.streams.train, checked), max(1, steps))
    course = _course(case, feed, by_id(checked, None), None)
    return _gone_on(case, replace(course, rates=(TUNED_RATE * case.job.settings.lr,)))


def _corrected(case: Case) -> Course:
    rows, transitions = _others(case, case.job.fold), _transitions(case)
    feed, known, objective = corrected(case, transitions, rows, _judges(case))
    regime = chosen_regime(case.job)
    regime = regime._replace(share=min(LONGEST_ROUND, regime.share))
    return _gone_on(case, _course(case, feed, known, regime, objective))


def _transitions(case: Case) -> Tensor:
    """What label each class gets, as checked examples or, after a round, all examples show."""
    plain = read_unseen(case.job, PLAIN, case.material)
    rough = transitions_of(plain, case.material)
    if case.job.arm != REFINED:
        return rough
    unseen = read_unseen(case.job, CORRECTED, case.material)
    return refined_by(unseen, case.material, rough, maximised=True)


def _course(
    case: Case,
    feed: Feed,
    known: ById,
    regime: Regime | None,
    objective: Objective = cross_entropy,
) -> Course:
    """Train in parts, between which the learning rate decays however short they are.

    Without a regime: for the batches of the feed, which are the first part.
    """
    settings, seed = replace(case.job.settings, epochs=PARTS), fold_seed(case.job)
    if regime is not None:
        steps = regime.share * len(feed) * case.job.settings.epochs
        feed = Repeated(feed, max(1, round(steps / PARTS)))
        settings = replace(settings, weight_decay=regime.decay * settings.weight_decay)
    total = len(feed) * PARTS
    train = case.material.train
    tutor = build_tutor("untaught", seed, train, settings, total, objective=objective)
    return Course(tutor, feed, rates_of(settings), known)


def _gone_on(case: Case, course: Course) -> Course:
    """Start from the fold's student of the stage before."""
    before = case.job.of(BEFORE[case.job.arm], case.job.fold)
    remedy = f"Delete {before.folder}, then go on with --resume."
    with name_damaged_file(before.checkpoint, remedy):
        state = load_checkpoint(before.checkpoint, device_of(case.job.settings))
        student = check_checksum("tutor", state)["student"]
    load_state(course.tutor.student, student, "student")
    return course


FOLD_COURSES: dict[str, Callable[[Case], Course]] = {
    TRIALS: _of_trial,
    PLAIN: _untaught,
    TUNED: _tuned,
    CORRECTED: _corrected,
    REFINED: _corrected,
}
"""of the students that are not judged, by name"""
