"""A learned loss is its formula, is descended as such, and is differentiated exactly."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import one_hot
from torch.optim import SGD, Adam

from tests.cases import B, C, build, stream
from tests.teachers.finite import assert_exact, train
from tutelage.bilevel import BilevelProblem
from tutelage.distributed.groups import empty_like
from tutelage.functional.student import StudentView
from tutelage.functional.trees import leaves
from tutelage.losses.objectives import cross_entropy
from tutelage.signals import Lookahead, Replayed, Reversible, Signal, Unrolled
from tutelage.signals.products import (
    FiniteDifference,
    ForwardOverReverse,
)
from tutelage.teacher import is_attached
from tutelage.teachers import DynamicLoss
from tutelage.training.loops import planned_steps
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, PreparedBatch, Progress, as_prepared


def fresh(seed: int = 2) -> DynamicLoss:
    torch.manual_seed(seed)
    teacher = DynamicLoss(C, width=5).double()
    for p in teacher.parameters():
        nn.init.normal_(p, std=0.7)
    return teacher


def shown(progress: Progress) -> tuple[PreparedBatch, Observation]:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(B, C, generator=generator, dtype=torch.float64)
    return as_prepared(next(stream())), Observation(logits[:, 0], logits, {}, progress)


def test_it_starts_as_the_sigmoid_of_the_log_probability() -> None:
    prepared, seen = shown(Progress(0.3, 2.0, 0.5))
    p = seen.logits.softmax(1)[torch.arange(B), prepared.targets]
    torch.testing.assert_close(DynamicLoss(C).double().row_losses(prepared, seen), -p / (1 + p))


def test_it_is_its_formula_for_every_example() -> None:
    teacher = fresh()
    prepared, seen = shown(Progress(0.3, 2.0, 0.5))
    right = (seen.logits.argmax(1) == prepared.targets).double().mean().item()
    assert 0 < right < 1
    state = torch.tensor([0.3, 2.0, 0.5, right], dtype=torch.float64)
    flat = teacher.net(state)
    w, b = flat[: C * C].reshape(C, C), flat[C * C :]
    got = teacher.row_losses(prepared, seen)
    for row, logits in enumerate(seen.logits):
        scores = w.T @ logits.log_softmax(0) + b
        want = -torch.sigmoid(scores[prepared.targets[row]])
        torch.testing.assert_close(got[row], want, rtol=1e-12, atol=0)


def test_a_batch_without_a_row_has_a_gradient_of_zero() -> None:
    teacher, logits = fresh(), torch.zeros(0, C, dtype=torch.float64)
    prepared = as_prepared(empty_like(next(stream())))
    teacher.row_losses(
        prepared, Observation(logits[:, 0], logits, {}, Progress())
    ).sum().backward()
    assert all(bool((p.grad == 0).all()) for p in teacher.parameters())


def test_soft_labels_mix_the_losses_of_the_classes() -> None:
    teacher = fresh()
    prepared, seen = shown(Progress(0.3))
    hard = prepared._replace(targets=one_hot(prepared.targets, C).double())
    torch.testing.assert_close(
        teacher.row_losses(hard, seen), teacher.row_losses(prepared, seen)
    )


@pytest.mark.parametrize(
    "other", [Progress(0.9), Progress(0.3, 1.0), Progress(0.3, 0.0, 1.0)], ids=str
)
def test_it_changes_with_the_state_of_training(other) -> None:
    prepared, seen = shown(Progress(0.3))
    got = fresh().row_losses(prepared, seen)
    assert (
        fresh().row_losses(prepared, seen._replace(progress=other)) - got
    ).abs().max() > 1e-3


def test_the_student_descends_it_and_is_judged_by_the_objective() -> None:
    teacher, student, other = fresh(), build("batch norm"), build("batch norm")
    rule = SGD(student.parameters(), lr=0.3, momentum=0.9)
    tutor = Tutor(student, rule, teacher, total_steps=3)
    again, mean, batches = SGD(other.parameters(), lr=0.3, momentum=0.9), 0.0, stream()
    for step in range(3):
        batch = next(batches)
        record = tutor.step(batch)
        logits = other(batch.inputs)
        losses = cross_entropy(logits, batch.targets)
        progress = Progress(step / 3, mean / max(step, 1))
        loss = teacher.row_losses(
            as_prepared(batch), Observation(losses, logits, {}, progress)
        ).mean()
        again.zero_grad()
        loss.backward()
        again.step()
        mean += loss.item()
        torch.testing.assert_close(record.loss, loss.detach())
        torch.testing.assert_close(record.losses, losses.detach())
    for ours, theirs in zip(student.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def batches(count: int) -> list[Batch]:
    source = stream()
    return [next(source) for _ in range(count)]


@pytest.mark.parametrize("signal", [Unrolled(1), Lookahead(), Lookahead(ForwardOverReverse())])
def test_through_one_step_it_is_the_slope_of_real_training(signal: Signal) -> None:
    taught, held_out = batches(2)
    assert_exact(lambda: build("group norm"), fresh(), [taught], held_out, signal=signal)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_through_a_whole_run_it_is_the_slope_of_the_held_out_loss(momentum: float) -> None:
    student, teacher = build("group norm"), fresh()
    rule = SGD(student.parameters(), lr=0.5, momentum=momentum)
    problem = BilevelProblem(StudentView(student, rule), teacher, cross_entropy)
    *taught, held_out = batches(5)
    steps, start = planned_steps(problem.student, taught, 0), problem.student.snapshot()

    def run(phi: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        estimate, _ = Replayed(4).estimate_run(problem, leaves(phi), start, steps, held_out)
        return estimate.grad, estimate.held_out_loss

    phi = {k: p.detach() for k, p in teacher.named_parameters()}
    grad, _ = run(phi)
    generator = torch.Generator().manual_seed(0)
    along = {
        k: torch.randn(p.shape, generator=generator, dtype=p.dtype) for k, p in phi.items()
    }
    up, down = (run({k: p + e * along[k] for k, p in phi.items()})[1] for e in (1e-5, -1e-5))
    wanted = torch.stack([(grad[k] * along[k]).sum() for k in phi]).sum()
    # central differences err by about 1e-10 times a third derivative, and by rounding
    torch.testing.assert_close(wanted, (up - down) / 2e-5, rtol=1e-5, atol=1e-9)


SIGNALS = [
    *(Replayed(2), Reversible(2), Replayed(2, product=ForwardOverReverse())),
    Replayed(2, product=FiniteDifference(size=1e-4)),
]


@pytest.mark.parametrize("signal", SIGNALS, ids=str)
def test_every_signal_sees_the_same(signal: Signal) -> None:
    *taught, held_out = batches(3)

    def found(how: Signal) -> dict[str, Tensor]:
        estimate, _ = train(lambda: build("group norm"), fresh(), taught, held_out, how)
        assert estimate is not None
        return dict(estimate.grad)

    wanted, got = found(Unrolled(2)), found(signal)
    loose = isinstance(signal, Replayed) and signal.product == FiniteDifference(size=1e-4)
    for name, grad in wanted.items():
        assert grad.any()
        rtol, atol = (1e-4, 1e-7) if loose else (1e-6, 1e-11)
        torch.testing.assert_close(got[name], grad, rtol=rtol, atol=atol)


def test_a_restep_descends_the_loss_of_the_changed_teacher() -> None:
    def tutor(mode) -> Tutor:
        student, teacher = build("relu network"), fresh()
        learner = SGD(teacher.parameters(), lr=5.0)
        rule = SGD(student.parameters(), lr=0.3)
        signal = Lookahead(mode=mode)
        return Tutor(student, rule, teacher, learner, signal=signal, total_steps=4)

    taught, held_out = batches(2)
    changed, plain = tutor("restep"), tutor("online")
    before = {k: p.detach().clone() for k, p in changed.student.named_parameters()}
    for each in (changed, plain):
        each.step(taught, held_out)
    own = dict(changed.teacher.named_parameters())
    for k, p in plain.teacher.named_parameters():  # the same look, so the same teacher
        torch.testing.assert_close(own[k], p)
    theta = leaves(before)
    logits = functional_call(changed.student, theta, (taught.inputs,))
    seen = Observation(logits[:, 0], logits, {}, Progress())
    teacher = changed.teacher
    assert isinstance(teacher, DynamicLoss)
    loss = teacher.row_losses(as_prepared(taught), seen).mean()
    grads = torch.autograd.grad(loss, list(theta.values()))
    after = dict(changed.student.named_parameters())
    for (k, p), g in zip(theta.items(), grads, strict=True):
        torch.testing.assert_close(after[k], p - 0.3 * g, rtol=1e-10, atol=1e-12)


def test_it_is_learned_along_a_run() -> None:
    student, teacher = build("relu network"), DynamicLoss(C).double()
    rule, learner = SGD(student.parameters(), lr=0.5), Adam(teacher.parameters(), lr=0.01)
    tutor = Tutor(
        student,
        rule,
        teacher,
        learner,
        signal=Replayed(4),
        teacher_every=4,
        total_steps=12,
    )
    source = stream()
    before = {k: p.detach().clone() for k, p in teacher.named_parameters()}
    for _ in range(12):
        tutor.step(next(source), next(source))
    assert is_attached(teacher)
    assert tutor.skipped_teacher_steps == 0
    assert not any(torch.equal(p, before[k]) for k, p in teacher.named_parameters())
