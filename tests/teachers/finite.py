"""Hypergradients of teachers against finite differences of real training, in float64."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tutelage.functional.replay_context import replay_context
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.signals import Implicit, Signal, Unrolled
from tutelage.teacher import acts_at_test
from tutelage.teachers import Plain
from tutelage.teachers.hook_calls import prepare
from tutelage.training.teacher_buffers import memory_of
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Estimate

STEPS, EPS = 2, 1e-5


class Watched(Signal):
    """A signal with a memory of what it answered."""

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self.steps = signal.steps
        self.estimates: list[Estimate] = []

    def __call__(self, problem, teacher_params, window, held_out) -> Estimate:
        self.estimates.append(self.signal(problem, teacher_params, window, held_out))
        return self.estimates[-1]


def train(
    build: Callable[[], nn.Module],
    teacher: nn.Module,
    batches: list[Batch],
    held_out: Batch,
    signal: Signal | None,
    objective: Objective = cross_entropy,
) -> tuple[Estimate | None, Tensor]:
    """Train a real student; an estimate at the end, if asked for, and its held-out loss."""
    for name in memory_of(teacher):  # of the student before
        teacher.get_buffer(name).zero_()
    student = build()
    rule = torch.optim.SGD(student.parameters(), lr=0.3, momentum=0.5)
    watched = None if signal is None else Watched(signal)
    learner = None if signal is None else torch.optim.SGD(teacher.parameters(), lr=0.0)
    tutor = Tutor(
        student,
        rule,
        teacher,
        learner,
        signal=watched,
        teacher_every=len(batches),
        total_steps=10,
        objective=objective,
        seed=5,
    )
    for batch in batches:
        tutor.step(batch, held_out if tutor.wants_held_out else None)
    with torch.no_grad(), replay_context(held_out, 0):
        asks = teacher if acts_at_test(teacher) else Plain()
        prepared = prepare(asks, {}, held_out)
        loss = objective(student(prepared.inputs), prepared.targets).mean()
    return None if watched is None else watched.estimates[-1], loss


def assert_exact(
    build: Callable[[], nn.Module],
    teacher: nn.Module,
    batches: list[Batch],
    held_out: Batch,
    objective: Objective = cross_entropy,
    signal: Signal | None = None,
) -> Estimate:
    """The hypergradient along a random direction is the slope of the held-out loss."""
    signal = Unrolled(len(batches)) if signal is None else signal
    estimate, loss = train(build, teacher, batches, held_out, signal, objective)
    assert estimate is not None
    torch.testing.assert_close(estimate.held_out_loss, loss, rtol=1e-10, atol=1e-12)
    generator = torch.Generator().manual_seed(3)
    own = dict(teacher.named_parameters())
    along = {
        k: torch.randn(p.shape, generator=generator, dtype=p.dtype) for k, p in own.items()
    }
    found = []
    for sign in (1, -2):  # forth, then back past where it began
        move(own, along, sign * EPS)
        found.append(train(build, teacher, batches, held_out, None, objective)[1])
    move(own, along, EPS)
    slope = (found[0] - found[1]) / (2 * EPS)
    wanted = torch.stack([(estimate.grad[k] * along[k]).sum() for k in own]).sum()
    assert slope.abs() > 1e-8
    # central differences err by about EPS^2 times a third derivative, and by rounding
    torch.testing.assert_close(wanted, slope, rtol=1e-5, atol=1e-9)
    return estimate


@torch.no_grad()
def move(own: dict[str, nn.Parameter], along: dict[str, Tensor], by: float) -> None:
    """Move parameters in place."""
    for name, p in own.items():
        p.add_(by * along[name])


def direct_term(
    build: Callable[[], nn.Module], teacher: nn.Module, batch: Batch, held_out: Batch
) -> dict[str, Tensor]:
    """What is left of the implicit gradient where the student could not move."""

    def nothing(matvec: object, v: dict[str, Tensor]) -> dict[str, Tensor]:  # noqa: ARG001 - the interface
        return {k: torch.zeros_like(t) for k, t in v.items()}

    estimate, _ = train(build, teacher, [batch], held_out, Implicit(nothing))
    assert estimate is not None
    return estimate.grad
