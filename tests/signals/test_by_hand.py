"""Cases small enough to be worked out by hand, where other libraries gave NaN or noise."""

from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

from tests.cases import OPTIMIZERS, STUDENTS, InputWeigher, Seen, build, stream
from tutelage.signals import Lookahead, Replayed, Reversible, Signal, Unrolled
from tutelage.signals.histories import FloatHistory
from tutelage.signals.reversible import WORST_DRIFT, require_little_drift
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Progress, Step


class Dot(nn.Module):
    """The inner product with a vector."""

    def __init__(self, *theta: float) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(theta))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.theta


class Factor(nn.Module):
    """Multiplies every loss by its one parameter."""

    normalise: ClassVar = None

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor(0.5))

    def weigh(self, prepared, observation) -> Tensor:  # noqa: ARG002 - the interface
        return self.a.expand(len(prepared.ids))


def first_or_second_power(logits: Tensor, targets: Tensor) -> Tensor:
    return logits**targets


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)]
)
@pytest.mark.parametrize("signal", [Unrolled(1), Replayed(1), Lookahead()], ids=repr)
def test_a_coordinate_without_gradient_under_adam_adds_nothing_and_no_nan(
    signal, dtype, tolerance
) -> None:
    # theta (1, 2), x (1, 0), loss a x.theta; then theta'^2, whose derivative in a is -7.2e-9
    student, teacher, seen = Dot(1.0, 2.0).to(dtype), Factor().to(dtype), Seen(1)
    learner = SGD(teacher.parameters(), lr=0.0)
    tutor = Tutor(
        student,
        Adam(student.parameters(), lr=0.1),
        teacher,
        learner,
        signal=seen,
        objective=first_or_second_power,
    )
    batch = Batch(torch.tensor([[1.0, 0]], dtype=dtype), torch.ones(1), torch.arange(1))
    held_out = Batch(torch.eye(2, dtype=dtype), torch.full((2,), 2.0), torch.arange(2))
    tutor.step(batch, held_out)
    hypergradient = 2 * signal(*seen.calls[0]).grad["a"].item()  # the held-out loss is a mean
    assert abs(hypergradient + 7.2e-9) < tolerance
    assert student.theta[1].item() == 2


@pytest.mark.parametrize("optimizer", ["adam", "amsgrad", "adamw"])
@pytest.mark.parametrize("student", STUDENTS)
def test_gradients_that_are_exactly_zero_give_no_nan_in_single_precision(
    student, optimizer
) -> None:
    # dead units and rows that are never looked up
    module, teacher, seen = build(student).float(), InputWeigher(), Seen(3)
    learner = SGD(teacher.parameters(), lr=0.0)
    tutor = Tutor(
        module, OPTIMIZERS[optimizer](module), teacher, learner, signal=seen, teacher_every=3
    )
    batches = (batch._replace(inputs=batch.inputs.float()) for batch in stream())
    for _ in range(3):
        tutor.step(next(batches), next(batches))
    signals: list[Signal] = [Unrolled(3), Replayed(3)]
    for signal in signals:
        grads = signal(*seen.calls[0]).grad.values()
        assert all(g.isfinite().all() for g in grads)


def sine(momentum: float) -> Step:
    settings = {"lr": 0.05, "momentum": momentum, "weight_decay": 0.0, "maximize": False}
    return Step(next(stream()), Progress(), {"t": settings | {"nesterov": False}})


def drift(momentum: float, steps: int) -> float:
    """How far momentum SGD on -cos(3 t) / 3, undone in float32, is from where it started."""
    step, start = sine(momentum), torch.tensor([1.0, -2.0, 0.3])
    theta, velocity = start, torch.zeros(3)
    for _ in range(steps):
        velocity = momentum * velocity + torch.sin(3 * theta)
        theta = theta - 0.05 * velocity
    history = FloatHistory({"t": theta}, {"t": velocity})
    for _ in range(steps):
        theta = history.params_before(step)["t"]
        history.undo_velocity(step, {"t": torch.sin(3 * theta)})
    off = [(theta - start).abs().max(), history.velocity["t"].abs().max()]
    return float(torch.stack(off).max())


@pytest.mark.parametrize(("momentum", "steps"), [(0.9, 200), (0.5, 50), (0.5, 200)])
def test_a_window_too_long_to_be_undone_in_single_precision_is_refused(momentum, steps) -> None:
    params = {"t": torch.zeros(3)}
    with pytest.raises(ValueError, match=f"Reversing {steps} steps.*fewer steps"):
        require_little_drift([sine(momentum)] * steps, params)


@pytest.mark.parametrize("momentum", [0.5, 0.9, 0.99])
def test_the_longest_window_that_is_accepted_comes_back_about_within_the_stated_drift(
    momentum,
) -> None:
    params, steps = {"t": torch.zeros(3)}, 1
    while True:
        try:
            require_little_drift([sine(momentum)] * (steps + 1), params)
        except ValueError:
            break
        steps += 1
    assert drift(momentum, steps) < 10 * WORST_DRIFT  # the curvature of 3 adds its part


@pytest.mark.parametrize("exact", [False, True])
def test_dropout_masks_are_the_same_forwards_and_backwards(exact) -> None:
    module, teacher, seen = build("dropout"), InputWeigher().double(), Seen(12)
    learner = SGD(teacher.parameters(), lr=0.0)
    optimizer = SGD(module.parameters(), lr=0.05, momentum=0.9)
    tutor = Tutor(module, optimizer, teacher, learner, signal=seen, teacher_every=12)
    batches = stream()
    for _ in range(12):
        tutor.step(next(batches), next(batches))
    problem, teacher_params, window, held_out = seen.calls[0]
    assert window.start is not None
    whole = (problem, teacher_params, window.start, window.steps, held_out)
    got, _ = Reversible(12, exact=exact).estimate_run(*whole)
    want, _ = Unrolled(12).estimate_run(*whole)
    for key, grad in want.grad.items():
        torch.testing.assert_close(got.grad[key], grad, rtol=1e-7, atol=1e-10)
