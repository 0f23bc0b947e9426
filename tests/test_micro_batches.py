"""Rows that the student sees a few at a time make the step of the one big batch."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tests.cases import (
    OPTIMIZERS,
    STUDENTS,
    B,
    C,
    D,
    InputWeigher,
    build,
    close,
    stream,
    watched,
)
from tests.signals.test_exactness import teacher_for
from tests.tutoring import Copies, same, teaching
from tutelage.errors import UnsupportedStudentError
from tutelage.losses.objectives import cross_entropy
from tutelage.signals import Lookahead, Replayed, Reversible, Signal, Unrolled
from tutelage.signals.products import Alignment
from tutelage.teachers import InternalState, Plain
from tutelage.training import step_checks
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, PreparedBatch

ROWS_APART = [name for name in STUDENTS if name not in ("batch norm", "dropout", "attention")]
"""students whose rows know nothing of one another and draw nothing"""


class Given(nn.Module):
    """Weighs as it is told."""

    def __init__(self, *weights: float) -> None:
        super().__init__()
        self.weights = torch.tensor(weights, dtype=torch.float64)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002
        return self.weights


def test_the_divisor_is_that_of_the_whole_batch() -> None:
    # losses 2, 4 and 10 of weights 1, 1 and a half, two at a time: a mean of means would be 6.5
    student = nn.Linear(1, 1, bias=False).double()
    nn.init.ones_(student.weight)
    optimizer = SGD(student.parameters(), lr=1.0)
    tutor = Tutor(
        student,
        optimizer,
        Given(1.0, 1.0, 0.5),
        objective=lambda outputs, _: outputs[:, 0],
        micro_batch=2,
    )
    x = torch.tensor([[2.0], [4.0], [10.0]], dtype=torch.float64)
    record = tutor.step(Batch(x, torch.zeros(3, dtype=torch.int64), torch.arange(3)))
    assert float(record.loss) == pytest.approx(4.4)
    assert float(student.weight.detach()) == pytest.approx(1 - 4.4)


def run(signal: Signal, kind: str, student: str, micro_batch: int | None) -> Tutor:
    module = build(student)
    teacher = teacher_for(kind, module) if kind != "copies" else Copies().double()
    tutor = teaching(signal, student=module, teacher=teacher, micro_batch=micro_batch)
    batches = stream()
    for _ in range(2 * signal.steps + 1):
        tutor.step(next(batches), next(batches))
    return tutor


@pytest.mark.parametrize("signal", [Lookahead(), Unrolled(2), Reversible(2), Replayed(2)])
@pytest.mark.parametrize("kind", ["inputs", "internal state", "shift", "copies"])
def test_student_and_teacher_end_as_with_the_whole_batch(kind, signal) -> None:
    for student in ("relu network", "group norm"):
        parts, whole = (run(signal, kind, student, rows) for rows in (4, None))
        close(parts.student.state_dict(), whole.student.state_dict(), 1e-10)
        close(parts.teacher.state_dict(), whole.teacher.state_dict(), 1e-10)


@pytest.mark.parametrize("student", ROWS_APART)
def test_every_student_ends_as_with_the_whole_batch(student) -> None:
    parts, whole = (run(Lookahead(), "inputs", student, rows) for rows in (4, None))
    close(parts.student.state_dict(), whole.student.state_dict(), 1e-10)
    close(parts.teacher.state_dict(), whole.teacher.state_dict(), 1e-10)


@pytest.mark.parametrize("student", STUDENTS)
def test_a_step_taken_again_draws_and_normalises_part_by_part_as_it_did(student) -> None:
    module, teacher = build(student), InputWeigher().double()
    optimizer = OPTIMIZERS["momentum"](module)
    call = watched(module, optimizer, teacher, steps=2, micro_batch=2)
    close(Replayed(2)(*call).grad, Unrolled(2)(*call).grad, 1e-11)
    problem, _, window, _ = call
    state = window.start
    assert state is not None
    for step in window.steps:
        state = problem.step(state, {}, step)
    close(state.params, window.end.params, 1e-11)
    for name, buffer in window.end.buffers.items():
        torch.testing.assert_close(state.buffers[name], buffer, rtol=1e-11, atol=0)


def test_batch_normalisation_counts_each_micro_batch_once_as_in_a_plain_loop() -> None:
    student, twin = build("batch norm"), build("batch norm")
    moved, alone = (SGD(s.parameters(), lr=0.1) for s in (student, twin))
    tutor, batches, again = Tutor(student, moved, Plain(), micro_batch=3), stream(), stream()
    for _ in range(3):
        tutor.step(next(batches))
        batch = next(again)
        alone.zero_grad()
        for rows in (slice(0, 3), slice(3, B)):
            loss = nn.functional.cross_entropy(twin(batch.inputs[rows]), batch.targets[rows])
            (loss / 2).backward()
        alone.step()
    close(student.state_dict(), twin.state_dict(), 1e-12)


def test_training_is_the_same_again_after_a_stop() -> None:
    def fresh() -> Tutor:
        module = build("dropout")
        return teaching(Unrolled(2), student=module, micro_batch=2)

    def go(tutor: Tutor, numbers: range) -> None:
        for number in numbers:
            batches = stream(number)
            tutor.step(next(batches), next(batches))

    unbroken, stopped = fresh(), fresh()
    go(unbroken, range(5))
    go(stopped, range(3))
    resumed = fresh()
    resumed.load_state_dict(stopped.state_dict())
    go(resumed, range(3, 5))
    assert same(resumed.state_dict(), unbroken.state_dict())


def test_what_needs_all_rows_at_once_is_refused() -> None:
    student = build("relu network")
    optimizer = SGD(student.parameters(), lr=0.1)
    teacher = InternalState(student, classes=3, surface=("margin",), attached=True)
    with pytest.raises(ValueError, match="keeps the path from weights to the student"):
        Tutor(student, optimizer, teacher, micro_batch=2)
    with pytest.raises(ValueError, match="tries each step before it is taken"):
        teaching(Lookahead(mode="restep"), micro_batch=2)
    with pytest.raises(ValueError, match="reads one pass over all rows; 'forward' does not"):
        teaching(Lookahead(product=Alignment("ghost")), micro_batch=3)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        Tutor(student, optimizer, Plain(), micro_batch=0)


def contrastive(outputs: Tensor, _: Tensor) -> Tensor:
    """InfoNCE between the first and the second half of the classes."""
    a, b = outputs[:, :2], outputs[:, 1:]
    return cross_entropy(a @ b.T, torch.arange(len(a)))


class Attends(nn.Module):
    """Attention over the batch, with dropout."""

    def __init__(self, *, detach: bool = False, drop: float = 0.0) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(D, 6), nn.Linear(6, C)
        self.drop, self.detach = nn.Dropout(drop), detach

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.drop(self.first(x))
        others = hidden.detach() if self.detach else hidden
        return self.last(hidden + (hidden @ others.T).softmax(1) @ others)


class Noisy(nn.Linear):
    """Draws in every mode, of which nothing is known."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input + 0.1 * torch.randn_like(input))


def stepped(student: nn.Module, micro_batch: int | None, objective: Any) -> nn.Module:
    optimizer = SGD(student.parameters(), lr=0.1)
    tutor = Tutor(
        student, optimizer, Plain(), objective=objective, micro_batch=micro_batch, seed=3
    )
    batches = stream()
    for _ in range(2):
        tutor.step(next(batches))
    return student


@pytest.mark.parametrize("rows", [1, 2, 4, 100])
@pytest.mark.parametrize(
    ("student", "objective"),
    [
        (lambda: nn.Linear(D, C), contrastive),
        (lambda: nn.Sequential(nn.Linear(D, C), nn.BatchNorm1d(C)), contrastive),
        (Attends, cross_entropy),
        (lambda: Attends(detach=True), cross_entropy),
        (lambda: Attends(drop=0.5), cross_entropy),
    ],
)
def test_rows_that_depend_on_one_another_are_refused(student, objective, rows) -> None:
    if rows >= B:  # one micro-batch is the whole batch
        stepped(student().double(), rows, objective)
        return
    with pytest.raises(UnsupportedStudentError, match=rf"micro_batch={rows} .*other rows"):
        stepped(student().double(), rows, objective)


def test_they_are_refused_at_the_first_batch_of_several_micro_batches() -> None:
    student = Attends().double()
    optimizer = SGD(student.parameters(), lr=0.1)
    tutor, batches = Tutor(student, optimizer, Plain(), micro_batch=4), stream()
    inputs, targets, ids = next(batches)[:3]
    tutor.step(Batch(inputs[:4], targets[:4], ids[:4]))
    with pytest.raises(UnsupportedStudentError, match="other rows"):
        tutor.step(next(batches))


@pytest.mark.parametrize("student", [lambda: nn.BatchNorm1d(D), lambda: Noisy(D, C)])
def test_batch_statistics_and_random_numbers_are_no_such_dependence(student) -> None:
    stepped(student().double(), 4, cross_entropy)


def test_the_check_changes_no_training() -> None:
    class Queue(nn.Module):
        """An objective with a memory."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros((), dtype=torch.float64))

        def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
            self.seen += float(np.random.rand())  # noqa: NPY002 - as other people's code
            return cross_entropy(outputs, targets) * (1 + self.get_buffer("seen"))

    def run(*, checked: bool) -> list[Tensor]:
        np.random.seed(0)  # noqa: NPY002
        torch.manual_seed(0)
        own = Queue()
        with pytest.MonkeyPatch.context() as patch:
            if not checked:
                patch.setattr(step_checks, "require_separate_rows", lambda *_: None)
            student = stepped(nn.Sequential(nn.Linear(D, C), nn.Dropout()).double(), 4, own)
        return [*student.parameters(), *own.buffers(), torch.rand(3)]

    assert same(run(checked=True), run(checked=False))
