"""What courses are put together from: rows, targets, correction, a budget of steps."""

import torch
from torch import Tensor

from tutelage.crossfit import ForwardCorrected
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage_cli.data.in_memory import InMemory
from tutelage_cli.train.arms import build_tutor
from tutelage_cli.train.controls.choosing import Case
from tutelage_cli.train.controls.rows import Repeated, Targeted, WithChecked, fed, together
from tutelage_cli.train.course import Course, Feed
from tutelage_cli.train.job import learning_rate
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.tracked import ById, by_id
from tutelage_cli.train.train_state import TrainState


def shares_of(case: Case, shares: tuple[float, ...]) -> list[int]:
    """Shares of the run's steps, one and above, each once."""
    steps = len(case.streams.train) * case.job.settings.epochs
    return sorted({max(1, round(share * steps)) for share in shares})


def rates_of(settings: TrainSettings) -> tuple[float, ...]:
    """The learning rate of every epoch."""
    return tuple(learning_rate(settings, epoch) for epoch in range(settings.epochs))


def budgeted(
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
        rates_of(settings),
        known,
        TrainState(seconds=seconds),
        weights,
        on_checked=True,
    )


def with_checked(
    case: Case, kept: Tensor | None = None, judges: Tensor | None = None
) -> tuple[InMemory, ById]:
    """Put checked examples after the training examples, all or some of either."""
    train = case.material.train if kept is None else case.material.train.rows(kept)
    checked = case.material.held_out if judges is None else case.material.held_out.rows(judges)
    whole = together(train, checked)
    return fed(case.streams.train, whole), by_id(whole, None)


def corrected(
    case: Case,
    transitions: Tensor,
    kept: Tensor | None = None,
    judges: Tensor | None = None,
) -> tuple[Feed, ById, Objective]:
    """Prepare gold loss correction on training and checked examples, all or some of either."""
    given, checked = case.material.train.labels, case.material.held_out.labels
    given = given if kept is None else given[kept]
    checked = checked if judges is None else checked[judges]
    feed, known = with_checked(case, kept, judges)
    targets = torch.cat([given, len(transitions) + checked])
    return Targeted(feed, targets), known, WithChecked(ForwardCorrected(transitions))
