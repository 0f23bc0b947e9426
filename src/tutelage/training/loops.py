"""Loops that learn a teacher over whole student runs, or along one."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from torch import Tensor, nn
from torch.optim import Optimizer

from tutelage.bilevel import BilevelProblem
from tutelage.errors import InexactWindowError
from tutelage.functional.optim import settings_of
from tutelage.functional.replay_context import clone_rows
from tutelage.functional.student import StudentView, in_full_precision
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.precision import FULL, autocast_now, autocast_to
from tutelage.randomness import mixed_seed
from tutelage.signals import TrajectorySignal
from tutelage.training.forward import StepResult
from tutelage.training.not_finite import reason_of_skip
from tutelage.training.teacher_buffers import require_no_memory, require_no_writes
from tutelage.training.teacher_update import SKIPPED, step_if_finite
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Estimate, Progress, Step, StudentState
from tutelage.validation.shapes import require_batch

_LOG = logging.getLogger(__name__)

__all__ = ["Episode", "alternating", "episodic"]


class Episode(NamedTuple):
    """One student's whole run, and the teacher step after it."""

    number: int
    held_out_loss: Tensor
    """scalar, of the student at the end"""
    student: StudentState
    """the student at the end"""
    facts: dict[str, float]
    """what the signal measured of itself"""
    skipped: bool
    """whether the hypergradient was not finite, or not good enough after a first one that was,
    so that the teacher took no step"""


def episodic(
    make_student: Callable[[int], tuple[nn.Module, Optimizer]],
    teacher: nn.Module,
    teacher_optimizer: Optimizer,
    batches: Callable[[int], Iterable[Batch]],
    held_out: Callable[[int], Batch],
    *,
    signal: TrajectorySignal,
    objective: Objective = cross_entropy,
    seed: int = 0,
) -> Iterator[Episode]:
    """Train fresh students one after the other, with a teacher step after each; endless.

    Source: Raghu et al. 2021, Teaching with Commentaries, algorithm 1.

    Args:
        make_student: From an episode's number to a student and its optimiser. The same student
            again for every number is the variant with a fixed start, which varies less.
        teacher: The teacher; see ``tutelage.Teacher``.
        teacher_optimizer: Its optimiser.
        batches: From an episode's number to the batches of that student's run.
        held_out: From an episode's number to the held-out batch of its final student.
        signal: Estimates the hypergradient through the whole run.
        objective: Logits [L, C] and targets to losses [L]; see ``tutelage.losses``.
        seed: Where the randomness of the teacher and of dropout starts from.

    Yields:
        One record per student; take as many as there shall be teacher steps.

    Note: ``InexactWindowError`` where the signal loses too much at the first student; later
    such students are skipped.
    """
    require_no_memory(teacher)
    number, warned = 0, False
    while True:
        module, optimizer = make_student(number)
        problem = BilevelProblem(StudentView(module, optimizer), teacher, objective)
        training = [require_batch("batch", b) for b in collect_batches(batches(number))]
        steps = planned_steps(problem.student, training, mixed_seed(seed, number))
        now = autocast_now(problem.student.device)
        batch = require_batch("held_out", held_out(number))._replace(
            seed=mixed_seed(seed, number, 1), autocast=now
        )
        params = {k: p for k, p in teacher.named_parameters() if p.requires_grad}
        start = in_full_precision(problem.student.snapshot())
        if number == 0 and steps:
            require_no_writes(problem, start, dict(params), steps[0])
        with autocast_to(FULL, problem.student.device):
            run = partial(signal.estimate_run, problem, dict(params), start, steps, batch)
            estimate, end = _estimated(run, first=number == 0)
        skipped = not step_if_finite(teacher_optimizer, params, estimate.grad)
        if skipped and not warned:
            warned = True
            _LOG.warning("%s %s", SKIPPED, reason_of_skip(batch, training, end.params))
        yield Episode(number, estimate.held_out_loss, end, dict(estimate.facts), skipped)
        number += 1


def _estimated(
    run: Callable[[], tuple[Estimate, StudentState]], *, first: bool
) -> tuple[Estimate, StudentState]:
    try:
        return run()
    except InexactWindowError as error:
        if first:  # nothing is lost yet
            raise
        return error.estimate, error.end


def collect_batches(batches: Iterable[Batch]) -> list[Batch]:
    """A list of all batches; an iterator's are cloned, since it may reuse memory."""
    if isinstance(batches, Sequence):
        return list(batches)
    return [clone_rows(batch) for batch in batches]


def planned_steps(student: StudentView, batches: list[Batch], seed: int) -> list[Step]:
    """The steps of a run to come, at the optimiser's present settings."""
    settings, now = settings_of(student.optimizer, student.names), autocast_now(student.device)
    moving = {k: s for k, s in settings.items() if student.params[k].requires_grad}
    return [
        Step(
            batch._replace(seed=mixed_seed(seed, place), autocast=now),
            Progress(place / len(batches)),
            moving,
        )
        for place, batch in enumerate(batches)
    ]


def alternating(
    tutor: Tutor, batches: Iterable[Batch], held_out: Iterator[Batch]
) -> Iterator[StepResult]:
    """Train one student and its teacher, each batch once.

    With ``Implicit`` and ``teacher_every=1`` this is algorithm 2 of Raghu et al. 2021, the
    hypergradient being taken on the batch of the step just made.

    Args:
        tutor: The student with its teacher.
        batches: Training batches.
        held_out: Held-out batches; one is taken where a teacher step is due.

    Yields:
        What happened in each step.
    """
    for batch in batches:
        yield tutor.step(batch, next(held_out) if tutor.wants_held_out else None)
