"""Odd students, teachers and loops, each judged by finite differences of real training."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from tests.cases import Seen, convolutional, stream
from tests.signals.odd import CASES, Case, Rescaling
from tutelage.bilevel import BilevelProblem
from tutelage.functional.student import StudentView
from tutelage.signals import Lookahead, Reversible, Signal, Unrolled
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Window

BEFORE = 2  # steps under the unmoved teacher, so that the optimiser has a memory


@dataclass(frozen=True)
class Run:
    """A case that was trained, and what a signal was shown of it."""

    problem: BilevelProblem
    teacher: dict[str, Tensor]
    window: Window
    held_out: Batch


def parts(case: Case) -> tuple[nn.Module, Optimizer, nn.Module]:
    torch.manual_seed(0)
    student = case.student().double()
    torch.manual_seed(1)
    teacher = case.teacher().double()
    case.between(0, student, SGD([torch.zeros(1)], lr=0.1))
    return student, case.optimizer(student), teacher


def trained(case: Case, steps: int) -> Run:
    """Train with ``torch.optim`` under a signal that watches the last ``steps`` steps."""
    student, optimizer, teacher = parts(case)
    seen, every = Seen(steps), BEFORE + steps
    learner = SGD(teacher.parameters(), lr=0.0)
    tutor = Tutor(
        student,
        optimizer,
        teacher,
        learner,
        signal=seen,
        teacher_every=every,
        total_steps=10,
    )
    batches = stream()
    for number in range(every):
        case.between(number, student, optimizer)
        tutor.step(next(batches), next(batches) if tutor.wants_held_out else None)
    return Run(*seen.calls[0])


def judged(case: Case, steps: int, shift: dict[str, Tensor], held_out: Batch) -> float:
    """The held-out loss after the same training, the teacher moved after ``BEFORE`` steps."""
    student, optimizer, teacher = parts(case)
    batches, moved = stream(), False
    tutor = Tutor(student, optimizer, teacher, total_steps=10)
    for number in range(BEFORE + steps):
        case.between(number, student, optimizer)
        if number >= BEFORE and not moved:
            moved = True
            with torch.no_grad():
                for name, p in teacher.named_parameters():
                    p += shift[name]
        tutor.step(next(batches))
    phi = {name: p.detach() for name, p in teacher.named_parameters()}
    view = StudentView(student, optimizer)
    problem = BilevelProblem(view, teacher, tutor.problem.objective)
    return float(problem.held_out_loss(view.state(), phi, held_out).detach())


def signals_of(case: Case) -> list[Signal]:
    kept: list[Signal] = [Unrolled(3), Lookahead()]
    return [*kept, Reversible(3)] if case.reversible else kept


@pytest.mark.parametrize(
    ("name", "signal"),
    [(name, signal) for name, case in CASES.items() for signal in signals_of(case)],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_hypergradient_equals_finite_differences_of_real_training(name, signal) -> None:
    case = CASES[name]
    run = trained(case, signal.steps)
    grad = signal(run.problem, run.teacher, run.window, run.held_out).grad
    generator, eps = torch.Generator().manual_seed(3), 1e-6
    direction = {
        k: torch.randn(p.shape, generator=generator, dtype=p.dtype)
        for k, p in run.teacher.items()
    }
    up, down = (
        judged(
            case, signal.steps, {k: sign * eps * d for k, d in direction.items()}, run.held_out
        )
        for sign in (1, -1)
    )
    want = (up - down) / (2 * eps)
    slope = sum(float((grad[k] * d).sum()) for k, d in direction.items())
    # rounding of central differences at 1e-6 is about 2e-10
    assert abs(slope - want) <= 1e-6 * abs(want) + 1e-9


@pytest.mark.parametrize("student", [Rescaling, lambda: convolutional(nn.BatchNorm2d(4))])
def test_a_replayed_window_ends_where_the_real_one_ended(student) -> None:
    run = trained(Case(student), 3)
    assert run.window.start is not None
    start = run.window.start
    state = start._replace(params={k: p.requires_grad_() for k, p in start.params.items()})
    for step in run.window.steps:
        state = run.problem.differentiable_step(state, run.teacher, step)
    for key, want in run.window.end.params.items():
        torch.testing.assert_close(state.params[key].detach(), want, rtol=0, atol=1e-14)
    for key, want in run.window.end.buffers.items():
        torch.testing.assert_close(state.buffers[key], want, rtol=0, atol=1e-14)
