"""Products and trajectories combined, against the unrolled run and dense matrices."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.cases import (
    NOT_IN_INPUTS,
    OPTIMIZERS,
    REVERSIBLE,
    STUDENTS,
    C,
    D,
    InputWeigher,
    Seen,
    build,
    close,
    in_turn,
    stream,
    watched,
)
from tests.signals.test_exactness import TEACHERS, teacher_for
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.trees import leaves
from tutelage.signals import (
    ConjugateGradient,
    Implicit,
    Lookahead,
    Neumann,
    Replayed,
    Reversible,
    Unrolled,
)
from tutelage.signals.histories import ExactHistory
from tutelage.signals.products import (
    Alignment,
    Automatic,
    DoubleBackward,
    FiniteDifference,
    ForwardOverReverse,
)
from tutelage.training.tutor import Tutor
from tutelage.types import Progress, Step

EXACT = {
    "automatic": Automatic(),
    "double backward": DoubleBackward(),
    "forward over reverse": ForwardOverReverse(),
}
SMOOTH = {"linear", "layer norm", "scalar parameter", "tied", "dropout"}


@pytest.mark.parametrize(
    ("student", "optimizer", "memory"), in_turn(STUDENTS, OPTIMIZERS, ["sqrt", "log", 3])
)
def test_replayed_equals_unrolled_for_every_optimiser(student, optimizer, memory) -> None:
    module = build(student)
    teacher = teacher_for("inputs", module)
    call = watched(module, OPTIMIZERS[optimizer](module), teacher, steps=7, before=2)
    close(Replayed(7, memory)(*call).grad, Unrolled(7)(*call).grad, 1e-9)


@pytest.mark.parametrize("kind", TEACHERS)
@pytest.mark.parametrize("student", STUDENTS)
def test_replayed_equals_unrolled_for_every_teacher(student, kind) -> None:
    if kind == "shift" and student in NOT_IN_INPUTS:
        pytest.skip("token ids have no derivative in the inputs")
    module = build(student)
    teacher = teacher_for(kind, module)
    call = watched(module, OPTIMIZERS["adam"](module), teacher, steps=5, before=2)
    close(Replayed(5)(*call).grad, Unrolled(5)(*call).grad, 1e-9)


@pytest.mark.parametrize(("student", "kind", "product"), in_turn(STUDENTS, TEACHERS, EXACT))
def test_every_exact_product_gives_the_same_hypergradient(student, kind, product) -> None:
    if kind == "shift" and student in NOT_IN_INPUTS:
        pytest.skip("token ids have no derivative in the inputs")
    if product == "forward over reverse" and student == "recurrent":
        pytest.skip("the GRU's fused kernel has no forward-mode derivative of its gradient")
    module = build(student)
    teacher = teacher_for(kind, module)
    call = watched(module, OPTIMIZERS["momentum"](module), teacher, steps=3, before=2)
    want = Unrolled(3)(*call).grad
    close(Reversible(3, product=EXACT[product])(*call).grad, want, 1e-9)
    close(Replayed(3, product=EXACT[product])(*call).grad, want, 1e-9)


@pytest.mark.parametrize("student", sorted(SMOOTH))
def test_finite_differences_are_good_on_smooth_students(student) -> None:
    module = build(student)
    teacher = teacher_for("internal state", module)
    call = watched(module, OPTIMIZERS["momentum"](module), teacher, steps=2, before=2)
    got = Reversible(2, product=FiniteDifference(size=1e-3))(*call).grad
    close(got, Unrolled(2)(*call).grad, 1e-4)


def test_finite_differences_refuse_a_student_with_kinks_unless_told_otherwise() -> None:
    module = nn.Sequential(nn.Linear(D, 200), nn.ReLU(), nn.Linear(200, C)).double()
    with torch.no_grad():
        next(module.parameters()).mul_(30)
    teacher = teacher_for("inputs", module)
    call = watched(module, OPTIMIZERS["momentum"](module), teacher, steps=2, before=1)
    with pytest.raises(FloatingPointError, match="not smooth"):
        Reversible(2, product=FiniteDifference(size=3.0))(*call)
    loose = FiniteDifference(size=3.0, bound=float("inf"))
    assert all(g.isfinite().all() for g in Reversible(2, product=loose)(*call).grad.values())


def test_finite_differences_of_nothing_are_nothing() -> None:
    """A single row's weight cancels in the weighted mean: only rounding is left."""
    module = build("linear")
    teacher = teacher_for("inputs", module)
    problem, teacher_params, window, held_out = watched(
        module, OPTIMIZERS["momentum"](module), teacher, steps=4
    )
    alone = [
        step._replace(
            batch=step.batch._replace(
                inputs=step.batch.inputs[:1],
                targets=step.batch.targets[:1],
                ids=step.batch.ids[:1],
            )
        )
        for step in window.steps
    ]
    call = problem, teacher_params, replace(window, steps=alone), held_out
    exact = Unrolled(4)(*call).grad
    got = Replayed(4, product=FiniteDifference(1e-3))(*call).grad
    for name, want in exact.items():
        assert want.abs().max() < 1e-11
        assert got[name].abs().max() < 1e-11


def test_dot_products_are_refused_for_a_teacher_that_does_more_than_weigh() -> None:
    module = build("linear")
    teacher = teacher_for("shift", module)
    call = watched(module, OPTIMIZERS["momentum"](module), teacher, steps=2)
    with pytest.raises(UnsupportedStudentError, match="DoubleBackward"):
        Reversible(2, product=Alignment())(*call)


def whole(signal, module: nn.Module, optimizer, steps: int):
    """A whole run from the student's first step, and the window that holds it."""
    teacher = teacher_for("inputs", module)
    problem, teacher_params, window, held_out = watched(module, optimizer, teacher, steps=steps)
    return signal.estimate_run(problem, teacher_params, window.start, window.steps, held_out)


@pytest.mark.parametrize("optimizer", REVERSIBLE)
@pytest.mark.parametrize("student", STUDENTS)
def test_exact_reversal_equals_unrolled(student, optimizer) -> None:
    (got, end), (want, truth) = _pair(student, optimizer, 12)
    close(got.grad, want.grad, 1e-8)  # the fixed-point run differs by 2^-40 a step
    for name, p in truth.params.items():
        torch.testing.assert_close(end.params[name], p, rtol=0, atol=1e-9)


def _pair(student: str, optimizer: str, steps: int):
    found = []
    for signal in (Reversible(steps, exact=True), Unrolled(steps)):
        module = build(student)
        found.append(whole(signal, module, OPTIMIZERS[optimizer](module), steps))
    return found


@pytest.mark.parametrize("momentum", [0.9, 0.5])
def test_every_state_comes_back_bit_for_bit_over_1000_steps(momentum) -> None:
    generator = torch.Generator().manual_seed(0)
    params = {"a": torch.tensor([1.0, -2.0, 0.3]), "b": torch.randn(5, generator=generator)}
    settings = {"lr": 0.05, "momentum": momentum, "weight_decay": 1e-4, "maximize": False}
    step = Step(next(stream()), Progress(), {"a": settings, "b": settings})

    def gradient(at: dict) -> dict:
        return {k: torch.sin(3 * p) for k, p in at.items()}

    history = ExactHistory.start(params, {})
    seen = []
    for _ in range(1000):
        seen.append({
            k: (t.clone(), history.velocity[k].clone()) for k, t in history.theta.items()
        })
        history.step(step, gradient(history.params))
    bits = history.bits(1000)
    assert bits <= -1.5 * torch.log2(torch.tensor(momentum)) + 0.2
    for before in reversed(seen):
        at = history.params_before(step)
        history.undo_velocity(step, gradient(at))
        for k, (theta, velocity) in before.items():
            assert torch.equal(history.theta[k], theta)
            assert torch.equal(history.velocity[k], velocity)
    assert not history.stored
    assert all(int(b.abs().max()) == 0 for b in history.buffers.values())


def test_exact_reversal_is_refused_where_ordinary_steps_have_lost_the_bits() -> None:
    module = build("linear")
    call = watched(module, OPTIMIZERS["momentum"](module), InputWeigher().double(), steps=2)
    with pytest.raises(ValueError, match="whole runs"):
        Reversible(2, exact=True)(*call)


class Ridge(nn.Module):
    """A linear student; with weight decay its training loss has one optimum."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(D, C)

    def forward(self, x):
        return self.map(x)


def trained_ridge(rate: float, steps: int):
    """A student at the optimum of one batch, by full-batch SGD."""
    torch.manual_seed(0)
    module = Ridge().double()
    optimizer = torch.optim.SGD(module.parameters(), lr=rate, weight_decay=0.1)
    teacher = teacher_for("inputs", module)
    batch = next(stream())
    seen = Seen(1)
    learner = torch.optim.SGD(teacher.parameters(), lr=0.0)
    tutor = Tutor(module, optimizer, teacher, learner, signal=seen, teacher_every=steps)
    held_out = next(stream(5))
    for _ in range(steps):
        tutor.step(batch, held_out)
    return seen.calls[-1]


def dense(problem, teacher_params, window, held_out):
    """The implicit hypergradient with the Hessian as a matrix."""
    step = window.steps[-1]
    theta = leaves(window.end.params)
    state = window.end._replace(params=theta)
    loss, _ = problem.training_loss(state, teacher_params, step)
    loss = loss + 0.05 * sum((p**2).sum() for p in theta.values())
    flat = torch.autograd.grad(loss, list(theta.values()), create_graph=True)
    g = torch.cat([part.flatten() for part in flat])
    rows = [
        torch.cat([
            part.flatten()
            for part in torch.autograd.grad(e, list(theta.values()), retain_graph=True)
        ])
        for e in g
    ]
    v = torch.autograd.grad(
        problem.held_out_loss(state, teacher_params, held_out), list(theta.values())
    )
    solved = torch.linalg.solve(torch.stack(rows), torch.cat([part.flatten() for part in v]))
    mixed = torch.autograd.grad(g @ solved, list(teacher_params.values()))
    return {k: -m for k, m in zip(teacher_params, mixed, strict=True)}


def test_conjugate_gradients_equal_the_dense_inverse() -> None:
    call = trained_ridge(0.5, 300)
    close(Implicit(ConjugateGradient(60))(*call).grad, dense(*call), 1e-8)


def test_a_long_neumann_series_equals_the_dense_inverse() -> None:
    call = trained_ridge(0.5, 300)
    close(Implicit(Neumann(2000, 0.3))(*call).grad, dense(*call), 1e-6)


@pytest.mark.parametrize("terms", [0, 1, 5])
def test_neumann_terms_equal_unrolled_steps_from_a_fixed_point(terms) -> None:
    problem, teacher_params, window, held_out = trained_ridge(0.5, 400)
    steps = [window.steps[-1]] * (terms + 1)
    at_rest = type(window)(window.end, steps, window.end)
    got = Implicit(Neumann(terms, 0.5))(problem, teacher_params, at_rest, held_out).grad
    close(got, Unrolled(terms + 1)(problem, teacher_params, at_rest, held_out).grad, 1e-7)


def test_the_controls_of_a_diverging_series() -> None:
    hessian = torch.tensor([1.0, 5.0], dtype=torch.float64)
    v = {"x": torch.ones(2, dtype=torch.float64)}

    def matvec(u: dict) -> dict:
        return {"x": hessian * u["x"]}

    right = torch.tensor([1.0, 0.2], dtype=torch.float64)
    torch.testing.assert_close(Neumann(200, 0.1)(matvec, v)["x"], right, atol=1e-5, rtol=0)
    torch.testing.assert_close(ConjugateGradient(2)(matvec, v)["x"], right)
    with pytest.raises(FloatingPointError, match="Lower scale"):
        Neumann(50, 0.5)(matvec, v)
    with pytest.raises(FloatingPointError, match="Raise damping"):
        ConjugateGradient(5)(lambda u: {"x": -u["x"]}, v)


def test_the_direct_term_of_a_teacher_that_acts_at_test_is_counted() -> None:
    module = build("relu network")
    teacher = teacher_for("shift", module)
    problem, teacher_params, window, held_out = watched(
        module, OPTIMIZERS["momentum"](module), teacher, steps=1, before=2
    )
    tiny = Implicit(Neumann(0, 1e-12))(problem, teacher_params, window, held_out).grad
    loss = problem.held_out_loss(window.end, teacher_params, held_out)
    (direct,) = torch.autograd.grad(loss, list(teacher_params.values()))
    torch.testing.assert_close(tiny["shift"], direct, atol=1e-9, rtol=0)


class Restless(nn.Module):
    """Gives something else with each call, from some call on."""

    def __init__(self, first: int, calls: Iterator[int]) -> None:
        super().__init__()
        self.map = nn.Linear(D, C)
        self.calls = lambda: next(calls)  # no attribute that could be put back
        self.first = first

    def forward(self, x):
        return self.map(x) * (1 + 1e-3 * max(self.calls() - self.first, 0))


def test_a_step_that_replays_differently_is_named() -> None:
    torch.manual_seed(0)
    module = Restless(8, itertools.count()).double()  # four steps, and the first one's checks
    call = watched(module, OPTIMIZERS["momentum"](module), InputWeigher().double(), steps=4)
    with pytest.raises(FloatingPointError, match=r"Replaying step \d gave another map\."):
        Replayed(4)(*call)


def test_a_student_that_replays_differently_from_its_first_step_on_is_refused_there() -> None:
    torch.manual_seed(0)
    module = Restless(0, itertools.count()).double()
    with pytest.raises(UnsupportedStudentError, match=r"does not give the same losses"):
        watched(module, OPTIMIZERS["momentum"](module), InputWeigher().double(), steps=4)


@pytest.mark.parametrize("product", EXACT)
def test_lookahead_takes_every_product(product) -> None:
    module = build("group norm")
    teacher = teacher_for("loss", module)
    call = watched(module, OPTIMIZERS["adam"](module), teacher, steps=1, before=2)
    close(Lookahead(product=EXACT[product])(*call).grad, Unrolled(1)(*call).grad, 1e-10)
