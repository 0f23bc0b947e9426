"""Rows that the student sees a few at a time make the step of the one big batch."""

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tests.cases import OPTIMIZERS, STUDENTS, B, InputWeigher, build, close, stream, watched
from tests.signals.test_exactness import teacher_for
from tests.tutoring import Copies, same, teaching
from tutelage.signals import Lookahead, Replayed, Reversible, Signal, Unrolled
from tutelage.signals.products import Alignment
from tutelage.teachers import InternalState, Plain
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Lesson, Observation

ROWS_APART = [name for name in STUDENTS if name not in ("batch norm", "dropout", "attention")]
"""students whose rows know nothing of one another and draw nothing"""


class Given(nn.Module):
    """Weighs as it is told."""

    def __init__(self, *weights: float) -> None:
        super().__init__()
        self.weights = torch.tensor(weights, dtype=torch.float64)

    def weigh(self, lesson: Lesson, observation: Observation) -> Tensor:  # noqa: ARG002
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
    deep = InternalState(student, classes=3, surface=("margin",), deep=True)
    with pytest.raises(ValueError, match="keeps the path from weights to the student"):
        Tutor(student, optimizer, deep, micro_batch=2)
    with pytest.raises(ValueError, match="tries each step before it is taken"):
        teaching(Lookahead(mode="restep"), micro_batch=2)
    with pytest.raises(ValueError, match="reads one pass over all rows; 'forward' does not"):
        teaching(Lookahead(product=Alignment("ghost")), micro_batch=3)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        Tutor(student, optimizer, Plain(), micro_batch=0)
