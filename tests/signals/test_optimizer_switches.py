"""Every switch of the student's optimiser is honoured by every signal, or refused by name."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from tests.cases import InputWeigher, stream
from tests.signals.odd import Case, network, setting
from tests.signals.test_odd_cases import Run, judged, trained
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.trees import inner
from tutelage.signals import (
    ConjugateGradient,
    Implicit,
    Lookahead,
    Neumann,
    Replayed,
    Reversible,
    Signal,
    Unrolled,
)
from tutelage.signals.products import (
    Alignment,
    FiniteDifference,
)
from tutelage.training.tutor import Tutor
from tutelage.types import Window

Make = Callable[[nn.Module], Optimizer]
STEPS = 3


def sgd(student: nn.Module, lr: Any = 0.1, momentum: float = 0.9, **switches: Any) -> Optimizer:
    return SGD(student.parameters(), lr=lr, momentum=momentum, **switches)


def adam(
    student: nn.Module, kind: type[Adam] = Adam, lr: Any = 0.02, **switches: Any
) -> Optimizer:
    return kind(student.parameters(), lr=lr, **switches)


def groups_of(*switches: dict) -> Make:
    """Momentum SGD with the student's parameters dealt out to groups of these switches."""

    def make(student: nn.Module) -> Optimizer:
        params, every = list(student.parameters()), len(switches)
        made = [{"params": params[place::every], **own} for place, own in enumerate(switches)]
        return SGD(made, lr=0.1, momentum=0.9)

    return make


tensor_rate = partial(torch.tensor, dtype=torch.float64)
PLAIN: dict[str, Make] = {
    "no momentum": partial(sgd, momentum=0.0),
    "maximize without momentum": partial(sgd, momentum=0.0, maximize=True, weight_decay=0.1),
    "nesterov": partial(sgd, nesterov=True),
    "nesterov, maximize, decay": partial(sgd, nesterov=True, maximize=True, weight_decay=0.1),
    "dampening": partial(sgd, dampening=0.3),
    "dampening of all": partial(sgd, dampening=1.0, weight_decay=0.1),
    "some without momentum": groups_of({"momentum": 0.0}, {}),
    "amsgrad": partial(adam, amsgrad=True),
    "amsgrad, maximize, decay": partial(adam, amsgrad=True, maximize=True, weight_decay=0.3),
    "adam, decay": partial(adam, weight_decay=0.3),
    "adam, large eps and other betas": partial(adam, eps=0.5, betas=(0.5, 0.6)),
    "adam, decoupled decay": partial(adam, weight_decay=0.3, decoupled_weight_decay=True),
    "adam, foreach": partial(adam, foreach=True),
    "adam, fused": partial(adam, fused=True),
    "adam, a tensor for a rate": partial(adam, lr=tensor_rate(0.02)),
    "adamw, amsgrad": partial(adam, kind=AdamW, amsgrad=True, weight_decay=0.3),
}
UNDONE: dict[str, Make] = {
    "maximize": partial(sgd, maximize=True, lr=0.02),
    "decay": partial(sgd, weight_decay=0.2),
    "foreach": partial(sgd, foreach=True),
    "fused": partial(sgd, fused=True, weight_decay=0.1),
    "a tensor for a rate": partial(sgd, lr=tensor_rate(0.1)),
    "some maximise": groups_of({"maximize": True, "lr": 0.02}, {"weight_decay": 0.1}),
    "some at rest": groups_of({"lr": 0.0}, {}),
    "all at rest": partial(sgd, lr=0.0),
}


def signals() -> Iterator[Signal]:
    yield Unrolled(STEPS)
    yield Replayed(STEPS)
    yield Replayed(STEPS, product=FiniteDifference(1e-4))
    yield Reversible(STEPS)


def slope_of(case: Case, run: Run, signal: Signal) -> tuple[float, float]:
    """The derivative of the held-out loss along some direction: by a signal, by differences."""
    made, size = torch.Generator().manual_seed(3), 1e-6
    way = {
        k: torch.randn(p.shape, generator=made, dtype=p.dtype) for k, p in run.teacher.items()
    }
    up, down = (
        judged(case, STEPS, {k: sign * size * d for k, d in way.items()}, run.held_out)
        for sign in (1, -1)
    )
    found = signal(run.problem, run.teacher, run.window, run.held_out).grad
    return float(inner(found, way)), (up - down) / (2 * size)


@pytest.mark.parametrize("name", [*PLAIN, *UNDONE])
def test_hypergradients_equal_differences_of_real_training(name: str) -> None:
    case = Case(optimizer=(PLAIN | UNDONE)[name])
    run = trained(case, STEPS)
    exact = Unrolled(STEPS)
    found, want = slope_of(case, run, exact)
    # a tensor for a rate is a float32 number to Adam's arithmetic
    assert abs(found - want) <= 2e-6 * abs(want) + 1e-9
    grad = exact(run.problem, run.teacher, run.window, run.held_out).grad
    for signal in signals():
        if isinstance(signal, Reversible) and name in PLAIN:
            with pytest.raises(UnsupportedStudentError, match="Reversible undoes"):
                signal(run.problem, run.teacher, run.window, run.held_out)
            continue
        other = signal(run.problem, run.teacher, run.window, run.held_out).grad
        rtol = 1e-5 if "Finite" in repr(signal) else 1e-9
        for key, g in grad.items():
            scale = float(g.abs().max())
            torch.testing.assert_close(other[key], g, rtol=rtol, atol=rtol * scale + 1e-12)


def last_step(run: Run) -> Window:
    assert run.window.start is not None
    state = run.window.start
    for step in run.window.steps[:-1]:
        state = run.problem.step(state, run.teacher, step)
    return Window(state, run.window.steps[-1:], run.window.end)


@pytest.mark.parametrize("name", [*PLAIN, *UNDONE])
def test_a_look_ahead_is_the_derivative_through_the_last_step(name: str) -> None:
    run = trained(Case(optimizer=(PLAIN | UNDONE)[name]), STEPS)
    problem, teacher_params, window, held_out = (
        run.problem,
        run.teacher,
        last_step(run),
        run.held_out,
    )
    want = Unrolled(1)(problem, teacher_params, window, held_out).grad
    for signal in (Lookahead(), Lookahead(Alignment("ghost"))):
        found = signal(problem, teacher_params, window, held_out).grad
        for key, g in want.items():
            torch.testing.assert_close(found[key], g, rtol=1e-8, atol=1e-12)


def test_a_schedule_within_the_window_is_followed_by_every_signal() -> None:
    case = Case(between=setting("lr", 0.1, 0.05, 0.2, 0.0, 0.15))
    run = trained(case, STEPS)
    for signal in signals():
        found, want = slope_of(case, run, signal)
        assert abs(found - want) <= 1e-4 * abs(want) + 1e-9


# Implicit has no steps: it is held against itself where the optimiser rests at the same place.


def implicit(optimizer: Optimizer, student: nn.Module, sign: float, solve) -> dict:
    torch.manual_seed(1)
    teacher = InputWeigher().double()
    before = {k: p.detach().clone() for k, p in teacher.named_parameters()}
    batches = stream()

    def objective(logits, targets):
        return sign * torch.nn.functional.cross_entropy(logits, targets, reduction="none")

    tutor = Tutor(
        student,
        optimizer,
        teacher,
        SGD(teacher.parameters(), lr=1.0),
        signal=Implicit(solve),
        objective=objective,
        metric=lambda z, y: objective(z, y) * sign,
    )
    tutor.step(next(batches), next(batches))
    return {k: before[k] - p.detach() for k, p in teacher.named_parameters()}


SOLVERS = {
    "neumann": Neumann(4, 0.2),
    "conjugate gradient": ConjugateGradient(5, damping=3.0),
}


def student_of() -> nn.Module:
    torch.manual_seed(0)
    return network().double()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", [SGD, Adam])
def test_a_student_at_rest_at_a_maximum_is_one_at_a_minimum_of_minus_the_loss(kind, solver):
    found = []
    for sign in (1.0, -1.0):
        student = student_of()
        optimizer = kind(student.parameters(), lr=1e-3, weight_decay=0.3, maximize=sign < 0)
        found.append(implicit(optimizer, student, sign, SOLVERS[solver]))
    for key, want in found[0].items():
        assert bool(want.any())
        torch.testing.assert_close(found[1][key], want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_parameters_at_a_rate_of_zero_are_as_frozen_ones(solver) -> None:
    found = []
    for frozen in (True, False):
        student = student_of()
        first, *rest = student.parameters()
        first.requires_grad_(not frozen)
        made = [{"params": [first], "lr": 0.0}, {"params": rest}]
        found.append(implicit(SGD(made, lr=1e-3), student, 1.0, SOLVERS[solver]))
    for key, want in found[0].items():
        torch.testing.assert_close(found[1][key], want)


def test_what_has_no_resting_place_is_refused_by_implicit() -> None:
    student = student_of()
    solve = SOLVERS["neumann"]
    with pytest.raises(UnsupportedStudentError, match=r"decay for a part of the loss.*AdamW"):
        implicit(AdamW(student.parameters()), student, 1.0, solve)
    implicit(AdamW(student.parameters(), weight_decay=0.0), student, 1.0, solve)
    mixed = groups_of({"maximize": True}, {})(student)
    with pytest.raises(UnsupportedStudentError, match=r"some groups.*maximize=True"):
        implicit(mixed, student, 1.0, solve)


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW])
def test_a_differentiable_optimiser_is_refused_when_the_tutor_is_made(kind) -> None:
    student = student_of()
    with pytest.raises(UnsupportedStudentError, match=r"\(differentiable=True\)"):
        implicit(
            kind(student.parameters(), lr=1e-3, differentiable=True),
            student,
            1.0,
            SOLVERS["neumann"],
        )
