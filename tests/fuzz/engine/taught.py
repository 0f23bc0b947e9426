"""The same situation by the engine, through its public doors."""

import io
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD

from tests.fuzz.engine.data import Delivery
from tests.fuzz.engine.differences import Course, Looked
from tests.fuzz.engine.made import Made, Parts
from tests.fuzz.engine.notes import Phi
from tutelage.training.loops import episodic
from tutelage.training.step_strategy import PlainStep
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

RATE = 0.01
"""of the teacher"""


class Noting(SGD):
    """Keeps the gradients that it is given."""

    def __init__(self, made: Made) -> None:
        super().__init__(list(made.learns.values()), lr=RATE)
        self.made, self.taken = made, []

    def step(self, closure=None):
        self.taken.append({
            k: p.grad.detach().clone()
            for k, p in self.made.learns.items()
            if p.grad is not None
        })
        return super().step(closure)


@dataclass
class Taught:
    """What the engine did."""

    before: list[Phi] = field(default_factory=list)
    after: list[Phi] = field(default_factory=list)
    looks: list[Looked] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)
    skipped: int = 0
    student: dict[str, Tensor] = field(default_factory=dict)

    @property
    def course(self) -> Course:
        """How the teacher was at every step."""
        return Course(self.before, self.after)


def phi_of(made: Made) -> Phi:
    """A copy of what of the teacher learns."""
    return {k: p.detach().clone() for k, p in made.learns.items()}


def state_of(made: Made) -> dict[str, Tensor]:
    """A copy of the student."""
    named = dict(made.student.named_parameters()) | dict(made.student.named_buffers())
    return {k: t.detach().clone() for k, t in named.items()}


def taught(parts: Parts) -> Taught:
    """Train as the situation says."""
    if parts.situation.mode == "whole run":
        return _whole(parts)
    return _stepwise(parts)


def _tutor(parts: Parts, made: Made, learner: Noting) -> Tutor:
    s = parts.situation
    return Tutor(
        made.student,
        made.optimizer,
        made.teacher,
        learner,
        signal=parts.kind.build(s.window),
        teacher_every=s.every,
        aggregate=s.aggregate,
        total_steps=s.steps,
        objective=parts.objective.given,
        metric=parts.objective.metric,
        seed=s.seed,
        step_strategy=PlainStep(s.clip or None),
        micro_batch=s.part or None,
    )


def _stepwise(parts: Parts) -> Taught:
    s, found = parts.situation, Taught()
    made = parts.make(parts.types)
    learner = Noting(made)
    tutor, given = _tutor(parts, made, learner), Delivery(parts.source, parts.types[0])
    resume = s.steps // 2 if s.mode == "resumed" else -1
    for number in range(s.steps):
        if number == resume:
            made, learner, tutor = _resumed(parts, tutor, learner, number)
        parts.event(number, made.student, made.optimizer)
        found.before.append(phi_of(made))
        taken = len(learner.taken)
        with autocast(parts):
            batch = given.batch(number)
            record = tutor.step(batch, given.held_out() if tutor.wants_held_out else None)
        found.after.append(phi_of(made))
        found.losses.append(float(record.loss))
        found.weights.append(record.weights)
        if len(learner.taken) > taken:
            last = number - (parts.kind.evaluate_on != "held-out")
            steps = range(last - (s.aggregate - 1) * s.every, last + 1, s.every)
            found.looks.append(Looked(tuple(steps), learner.taken[-1]))
        if s.data == "edited afterwards":
            given.edit()
    found.skipped, found.student = tutor.skipped_teacher_steps, state_of(made)
    return found


def autocast(parts: Parts):
    """What the user's loop runs under."""
    on = parts.situation.precision == "autocast"
    return torch.autocast("cpu", torch.bfloat16) if on else nullcontext()


def _resumed(
    parts: Parts, tutor: Tutor, learner: Noting, number: int
) -> tuple[Made, Noting, Tutor]:
    file = io.BytesIO()
    torch.save(tutor.state_dict(), file)
    file.seek(0)
    made = parts.make(parts.types)
    for step in range(number):
        parts.event(step, made.student, made.optimizer)
    again = Noting(made)
    again.taken = learner.taken
    fresh = _tutor(parts, made, again)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    return made, again, fresh


def _whole(parts: Parts) -> Taught:
    s, found, kept = parts.situation, Taught(), []
    made = parts.make(parts.types)
    learner, given = Noting(made), Delivery(parts.source, parts.types[0])

    def student(_: int):
        kept.append(parts.make(parts.types))
        return kept[-1].student, kept[-1].optimizer

    def batches(_: int) -> Iterator[Batch]:
        for number in range(s.steps):
            yield given.batch(number)

    before = phi_of(made)
    signal: Any = parts.kind.build(s.window)
    with autocast(parts):
        episode = next(
            episodic(
                student,
                made.teacher,
                learner,
                batches,
                lambda _: given.held_out(),
                signal=signal,
                objective=parts.objective.given,
                seed=s.seed,
            )
        )
    found.before, found.after = [before] * s.steps, [before] * s.steps
    found.looks = [Looked((s.steps - 1,), grad) for grad in learner.taken]
    found.skipped = int(episode.skipped)
    found.student = {k: p.detach().clone() for k, p in episode.student.params.items()}
    return found
