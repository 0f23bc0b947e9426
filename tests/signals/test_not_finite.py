"""What is not finite is left out and counted by every signal; the teacher stays finite."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, Optimizer

from tests.cases import C, D, InputWeigher, stream
from tutelage.signals import (
    ConjugateGradient,
    GradientAlignment,
    Implicit,
    Lookahead,
    Neumann,
    NextStepLoss,
    Replayed,
    Reversible,
    Signal,
    TrajectorySignal,
    Unrolled,
)
from tutelage.signals.products import (
    Alignment,
    DoubleBackward,
    FiniteDifference,
    FirstOrder,
    ForwardOverReverse,
)
from tutelage.teachers import KeepOrDrop
from tutelage.teachers.loss_percentile import LossPercentile
from tutelage.training.loops import episodic
from tutelage.training.teacher_update import step_if_finite
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, PreparedBatch

PRODUCTS = (
    DoubleBackward(),
    ForwardOverReverse(),
    FiniteDifference(1e-3),
    FirstOrder(),
    Alignment("ghost"),
    Alignment("difference"),
    Alignment("one-sided"),
)
SIGNALS: list[Signal] = [
    Unrolled(2),
    Replayed(2),
    *(Replayed(2, product=product) for product in PRODUCTS),
    Reversible(2),
    *(Lookahead(product) for product in PRODUCTS),
    Lookahead(),
    Lookahead(evaluate_on="next"),
    Lookahead(mode="restep"),
    Lookahead(mode="virtual"),
    Implicit(Neumann(0, 0.1)),
    Implicit(Neumann(3, 0.1)),
    Implicit(ConjugateGradient(3, damping=1.0)),
    GradientAlignment(),
    GradientAlignment(evaluate_on="held-out", normalise="none"),
    GradientAlignment(Alignment("one-sided"), normalise="mean"),
    NextStepLoss(normalise="none"),
]


def spoilt(batch: Batch, number: float) -> Batch:
    inputs = batch.inputs.clone()
    inputs[0, 0] = number
    return batch._replace(inputs=inputs)


def student_of() -> tuple[nn.Module, Optimizer]:
    torch.manual_seed(0)
    student = nn.Sequential(nn.Linear(D, 5), nn.Tanh(), nn.Linear(5, C)).double()
    return student, SGD(student.parameters(), lr=0.1, momentum=0.9)


def squared(logits: Tensor, targets: Tensor) -> Tensor:
    return (logits - targets[:, None]).square().sum(1)


def teacher_for(signal: object) -> nn.Module:
    torch.manual_seed(1)
    sampled = isinstance(signal, GradientAlignment | NextStepLoss)
    return (KeepOrDrop(InputWeigher()) if sampled else InputWeigher()).double()


@pytest.mark.parametrize("number", [torch.inf, 1e200])
@pytest.mark.parametrize("signal", SIGNALS, ids=repr)
def test_a_window_that_is_not_finite_costs_teacher_steps_alone(signal, number) -> None:
    student = nn.Linear(D, C).double()  # nothing holds 1e200 back
    teacher = teacher_for(signal)
    learner = Adam(teacher.parameters(), lr=0.1)
    optimizer = SGD(student.parameters(), lr=0.1, momentum=0.9)
    tutor = Tutor(
        student, optimizer, teacher, learner,
        signal=signal, teacher_every=signal.steps, objective=squared,
    )  # fmt: skip
    before = [p.detach().clone() for p in teacher.parameters()]
    extra = getattr(signal, "evaluate_on", "held-out") != "held-out"
    for place, batch in zip(range(2 * signal.steps + extra), stream(), strict=False):
        bad = spoilt(batch, number) if place == 0 else batch
        tutor.step(bad, spoilt(batch, number))
    assert tutor.skipped_teacher_steps == 2
    for p, was in zip(teacher.parameters(), before, strict=True):
        assert torch.equal(p, was)
    assert not learner.state


@pytest.mark.parametrize("where", ["training", "held-out", "diverged"])
def test_the_first_skipped_teacher_step_says_which_examples_are_not_finite(
    where, caplog
) -> None:
    student, optimizer = student_of()
    teacher = teacher_for(Lookahead())
    learner = Adam(teacher.parameters(), lr=0.1)
    tutor = Tutor(student, optimizer, teacher, learner, signal=Lookahead(), teacher_every=2)
    source = stream()
    batches = [next(source) for _ in range(6)]
    early = {"training": 1, "diverged": 0}.get(where)
    for place, batch in enumerate(batches):
        given = spoilt(batch, torch.nan) if place == early else batch
        tutor.step(given, spoilt(batch, torch.nan) if where == "held-out" else batch)
    assert tutor.skipped_teacher_steps == 3
    (record,) = caplog.records
    said = {
        "training": f"training examples with the ids {int(batches[1].ids[0])}:",
        "held-out": f"held-out examples with the ids {int(batches[1].ids[0])}:",
        "diverged": "student's parameters are not finite",
    }
    assert said[where] in record.getMessage()


WHOLE: list[TrajectorySignal] = [
    Unrolled(3),
    Replayed(3),
    Replayed(3, memory="log"),
    *(Replayed(3, product=product) for product in PRODUCTS),
    Reversible(3),
]


@pytest.mark.parametrize("spoil", ["training", "held-out"])
@pytest.mark.parametrize("signal", WHOLE, ids=repr)
def test_a_whole_run_that_is_not_finite_is_skipped(signal, spoil, caplog) -> None:
    teacher, batches = teacher_for(signal), stream()
    seen = [next(batches) for _ in range(4)]
    learner = Adam(teacher.parameters(), lr=0.1)

    def given(number: int) -> list[Batch]:
        bad = number == 0 and spoil == "training"
        return [spoilt(seen[0], torch.inf) if bad else seen[0], *seen[1:3]]

    def judges(number: int) -> Batch:
        return spoilt(seen[3], torch.inf) if number == 0 and spoil == "held-out" else seen[3]

    runs = episodic(lambda _: student_of(), teacher, learner, given, judges, signal=signal)
    assert [next(runs).skipped, next(runs).skipped] == [True, False]
    (record,) = caplog.records
    assert f"{spoil} examples with the ids" in record.getMessage()
    assert all(bool(p.isfinite().all()) for p in teacher.parameters())


class Remembering(nn.Module):
    """Weighs all rows alike, and remembers how high losses are."""

    uses_progress = True

    def __init__(self) -> None:
        super().__init__()
        self.percentile = LossPercentile(percentile=1.0, decay=0.5)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
        return torch.ones_like(observation.losses)


def infinite_where_negative(logits: Tensor, targets: Tensor) -> Tensor:
    losses = cross_entropy(logits, targets.clamp(min=0), reduction="none")
    return losses + torch.zeros_like(losses).where(targets >= 0, torch.inf)


def test_what_a_teacher_remembers_and_is_shown_stays_finite() -> None:
    student, optimizer = student_of()
    tutor = Tutor(
        student, optimizer, Remembering(), objective=infinite_where_negative, total_steps=9
    )
    losses = []
    for place, batch in zip(range(4), stream(), strict=False):
        targets = batch.targets.where(batch.ids != batch.ids[0], -1)
        losses.append(tutor.step(batch._replace(targets=targets) if place == 1 else batch).loss)
    finite = torch.stack([loss for loss in losses if bool(loss.isfinite())])
    assert len(finite) == 3
    assert tutor.progress.mean_loss == pytest.approx(float(finite.mean()))
    assert all(bool(buffer.isfinite().all()) for buffer in tutor.teacher.buffers())
    again = Tutor(*student_of(), Remembering(), total_steps=9)
    again.load_state_dict(tutor.state_dict())
    assert again.progress.mean_loss == tutor.progress.mean_loss
    old = {k: x for k, x in tutor.state_dict().items() if k != "not_finite"}
    again.load_state_dict(old)
    assert again.progress.mean_loss == pytest.approx(float(finite.sum()) / 4)


@pytest.mark.parametrize(("number", "moved"), [(1.0, True), (torch.inf, False), (1e30, False)])
@pytest.mark.parametrize("kind", [SGD, Adam])
def test_a_gradient_that_would_spoil_an_optimiser_moves_nothing(kind, number, moved) -> None:
    p = nn.Parameter(torch.ones(2))
    optimizer = kind([p], lr=0.1)
    grad = {"p": torch.tensor([1.0, number], dtype=torch.float64)}
    assert step_if_finite(optimizer, {"p": p}, grad) == moved
    assert torch.equal(p, torch.ones(2)) != moved
    assert bool(p.isfinite().all())
    assert bool(optimizer.state) == (moved and kind is Adam)
