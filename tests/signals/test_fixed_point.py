"""Fixed point holds numbers of any size, and says where one is not finite."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tests.cases import Seen, close, stream
from tutelage.errors import UnsupportedStudentError
from tutelage.signals import Reversible, TrajectorySignal, Unrolled
from tutelage.signals.histories import ExactHistory
from tutelage.training.loops import Episode, episodic
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Progress, Step

STEPS = 12
X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = X @ torch.tensor([1.0, -2.0, 0.5, 1.0], dtype=torch.float64)


class Weights(nn.Module):
    """One weight for each example."""

    def __init__(self) -> None:
        super().__init__()
        self.phi = nn.Parameter(torch.linspace(-1, 1, 12, dtype=torch.float64))

    def weigh(self, prepared, observation) -> Tensor:  # noqa: ARG002 - the interface
        return self.phi[prepared.ids].sigmoid()


def squared(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().mean(1)


def regression(scale: float, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(1)
    student = nn.Linear(4, 1).to(torch.float64)
    with torch.no_grad():
        for p in student.parameters():
            p.mul_(scale)
    return student.to(dtype)


def window(student: nn.Module, optimizer: SGD, x: Tensor, y: Tensor, steps: int = STEPS):
    """A whole run of real steps, as the arguments of ``whole``."""
    seen, teacher = Seen(steps), Weights()
    learner = SGD(teacher.parameters(), lr=0.0)
    tutor = Tutor(
        student,
        optimizer,
        teacher,
        learner,
        signal=seen,
        teacher_every=steps,
        objective=squared,
    )
    dtype, ids = next(student.parameters()).dtype, torch.arange(12)
    x, y = x.to(dtype), y.to(dtype)[:, None]
    for number in range(steps):
        rows = ids.roll(number)[:6]
        tutor.step(Batch(x[rows], y[rows], rows), Batch(x, y, ids))
    problem, phi, taken, held_out = seen.calls[0]
    assert taken.start is not None
    return problem, phi, taken.start, taken.steps, held_out


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)]
)
@pytest.mark.parametrize("scale", [1e-12, 1e7, 1e12])
def test_parameters_of_any_size_give_what_unrolling_gives(scale, dtype, tolerance) -> None:
    student = regression(scale, dtype)
    call = window(student, SGD(student.parameters(), lr=0.1, momentum=0.9), X, Y * scale)
    (got, end), (want, truth) = (
        Reversible(STEPS, exact=True).estimate_run(*call),
        Unrolled(STEPS).estimate_run(*call),
    )
    close(got.grad, want.grad, tolerance)
    close(end.params, truth.params, tolerance)


@pytest.mark.parametrize(
    ("features", "rate"),
    [
        (torch.tensor([1e7, 1e7, 1e7, 1e7]), 1e-15),
        (torch.tensor([1e6, 1e-6, 1.0, 1e3]), 1e-13),  # in one tensor
    ],
)
def test_features_and_velocities_of_any_size_give_what_unrolling_gives(features, rate) -> None:
    student, x = regression(1.0), X * features
    call = window(student, SGD(student.parameters(), lr=rate, momentum=0.9), x, Y)
    got, _ = Reversible(STEPS, exact=True).estimate_run(*call)
    close(got.grad, Unrolled(STEPS).estimate_run(*call)[0].grad, 1e-10)


def test_a_parameter_that_shrinks_by_nine_digits_keeps_enough_of_them() -> None:
    student = regression(1e9)
    optimizer = SGD(student.parameters(), lr=0.1, momentum=0.2, weight_decay=7.0)
    call = window(student, optimizer, X, Y, steps=30)
    got, _ = Reversible(30, exact=True).estimate_run(*call)
    close(got.grad, Unrolled(30).estimate_run(*call)[0].grad, 1e-7)


def episode(
    signal: TrajectorySignal, x: Tensor, scale: float = 1.0, rate: float = 0.1
) -> Episode:
    teacher, ids = Weights(), torch.arange(12)

    def make(_: int):
        student = regression(scale)
        return student, SGD(student.parameters(), lr=rate, momentum=0.9)

    batches = [Batch(x[rows], Y[rows, None], rows) for n in range(30) for rows in [ids.roll(n)]]
    learner = SGD(teacher.parameters(), lr=1.0)
    episodes = episodic(
        make,
        teacher,
        learner,
        lambda _: batches,
        lambda _: Batch(X, Y[:, None], ids),
        signal=signal,
        objective=squared,
    )
    found = next(episodes)
    assert torch.equal(teacher.phi, Weights().phi) == found.skipped
    return found


SPOILT = torch.where(torch.arange(48).reshape(12, 4) == 29, math.nan, X)


@pytest.mark.parametrize(
    "case",
    [
        {"x": SPOILT},
        {"x": SPOILT.nan_to_num(math.inf)},
        {"x": X, "scale": math.inf},
        {"x": X, "rate": 1e30},
    ],
    ids=["NaN in an input", "infinite input", "infinite parameter", "divergence"],
)
def test_a_run_that_does_not_stay_finite_is_skipped_and_counted(case) -> None:
    got, want = (
        episode(signal, **case) for signal in (Reversible(30, exact=True), Unrolled(30))
    )
    assert got.skipped
    assert want.skipped
    assert not got.held_out_loss.isfinite()
    for name, p in want.student.params.items():
        assert torch.equal(got.student.params[name].isfinite(), p.isfinite())


def test_a_momentum_that_whole_numbers_cannot_hold_is_refused() -> None:
    student = regression(1.0)
    call = window(student, SGD(student.parameters(), lr=0.1, momentum=1e-8), X, Y)
    with pytest.raises(UnsupportedStudentError, match="momentum from 1e-6"):
        Reversible(STEPS, exact=True).estimate_run(*call)


def test_numbers_that_got_another_last_bit_come_back_bit_for_bit() -> None:
    settings = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4, "maximize": False}
    step = Step(next(stream()), Progress(), dict.fromkeys("ab", settings))
    params = {"a": torch.tensor([1e-9, -2.0, 0.0, 0.0]), "b": torch.ones(2, 2).T * 3e5}

    def gradient(at: dict, number: int) -> dict:
        growth = 1e-12 * 8.0 ** min(number, 60 - number)  # to 2e15 and back
        return {k: growth * p.sin() for k, p in at.items()}

    history, seen = ExactHistory.start(params, {}), []
    for number in range(60):
        seen.append({
            k: (t.clone(), history.velocity[k].clone()) for k, t in history.theta.items()
        })
        assert history.step(step, gradient(history.params, number))
    assert history.refits
    for number in reversed(range(60)):
        at = history.params_before(step)
        history.undo_velocity(step, gradient(at, number))
        for k, (theta, velocity) in seen[number].items():
            assert torch.equal(history.theta[k], theta)
            assert torch.equal(history.velocity[k], velocity)
    assert not history.refits


class Rescaling(nn.Module):
    """Divides by a running scale, which a step that is undone finds as it was at the end."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1, dtype=torch.float64)
        self.register_buffer("scale", torch.ones((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        found = self.linear(x)
        self.scale = 0.5 * self.scale + 0.5 * found.detach().abs().mean()
        return found / self.scale


def test_a_run_that_does_not_come_back_to_its_start_is_refused() -> None:
    torch.manual_seed(0)
    student = Rescaling()
    call = window(student, SGD(student.parameters(), lr=0.1, momentum=0.9), X, Y, 3)
    with pytest.raises(UnsupportedStudentError, match="do not come back to its start"):
        Reversible(3, exact=True).estimate_run(*call)
