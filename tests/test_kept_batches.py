"""What signals look back at is what the step saw, whoever writes to the batch afterwards."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tests.awkward import Body, C, D, plain
from tutelage.signals import (
    GradientAlignment,
    Lookahead,
    NextStepLoss,
    Replayed,
    Reversible,
    Signal,
    Unrolled,
)
from tutelage.teachers import KeepOrDrop
from tutelage.training.loops import episodic
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, PreparedBatch, as_prepared

F64 = torch.float64
N, B = 12, 5


class ByExample(nn.Module):
    """One weight for each example."""

    def __init__(self) -> None:
        super().__init__()
        self.phi = nn.Parameter(torch.linspace(-1, 1, N, dtype=F64))

    def weigh(self, prepared: PreparedBatch, observation) -> Tensor:  # noqa: ARG002 - the interface
        return self.phi[prepared.ids].sigmoid() * (1 + prepared.inputs[:, 0].square())


class Shifts(ByExample):
    """Prepares, too, in memory of its own or of the batch."""

    def __init__(self, *, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place

    def prepare(self, batch: Batch) -> PreparedBatch:
        moved = batch.inputs.mul_(1.5) if self.in_place else batch.inputs * 1.5
        return as_prepared(batch)._replace(inputs=moved)


class Standardises(Body):
    def __init__(self, *, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.sub_(1.0).div_(2.0) if self.in_place else (x - 1.0) / 2.0)


def softens(*, in_place: bool) -> Callable[[Tensor, Tensor], Tensor]:
    def objective(z: Tensor, y: Tensor) -> Tensor:
        soft = y.mul_(0.9).add_(0.1 / C) if in_place else y * 0.9 + 0.1 / C
        return -(soft * z.log_softmax(1)).sum(1)

    return objective


def rows_of(step: int, *, soft: bool = False) -> Batch:
    generator = torch.Generator().manual_seed(step)
    ids = torch.randperm(N, generator=generator)[:B]
    x = torch.randn(B, D, generator=generator, dtype=F64)
    y = ids % C
    return Batch(x, nn.functional.one_hot(y, C).to(F64) if soft else y, ids)


class Buffers:
    """A loop's one set of buffers, filled through torch or from NumPy's side."""

    def __init__(self, *, numpy: bool) -> None:
        self.arrays = [np.zeros((B, D)), np.zeros(B, np.int64), np.zeros(B, np.int64)]
        self.numpy = numpy

    def __call__(self, batch: Batch) -> Batch:
        tensors = [torch.from_numpy(a) for a in self.arrays]
        for array, tensor, new in zip(self.arrays, tensors, batch[:3], strict=True):
            if self.numpy:
                array[...] = new.numpy()
            else:
                tensor.copy_(new)
        inputs, targets, ids = tensors
        return Batch(inputs, targets, ids)


def taught(
    signal: Signal,
    *,
    fill: Callable[[Batch], Batch] = lambda batch: batch,
    student: nn.Module | None = None,
    teacher: nn.Module | None = None,
    objective: Callable[[Tensor, Tensor], Tensor] = plain,
    soft: bool = False,
) -> Tensor:
    """Student and teacher after a few steps, in one vector."""
    torch.manual_seed(0)
    student = Body() if student is None else student
    student = student.double()
    teacher = ByExample() if teacher is None else copy.deepcopy(teacher)
    tutor = Tutor(
        *(student, SGD(student.parameters(), lr=0.3, momentum=0.9)),
        *(teacher, SGD(teacher.parameters(), lr=0.5)),
        signal=signal,
        teacher_every=signal.steps,
        objective=objective,
    )
    held_out = Buffers(numpy=False) if not soft else lambda batch: batch
    for step in range(2 * signal.steps + 2):
        judge = held_out(rows_of(100 + step, soft=soft))
        tutor.step(fill(rows_of(step, soft=soft)), judge)
    both = [*student.parameters(), *teacher.parameters()]
    return torch.cat([p.detach().flatten() for p in both])


SIGNALS = [Unrolled(3), Replayed(3), Reversible(3), Lookahead(), Lookahead(evaluate_on="next")]


@pytest.mark.parametrize("numpy", [False, True])
@pytest.mark.parametrize("signal", SIGNALS, ids=str)
def test_a_loop_may_fill_its_buffers_again(signal, numpy) -> None:
    assert torch.equal(taught(signal, fill=Buffers(numpy=numpy)), taught(signal))


@pytest.mark.parametrize("signal", [NextStepLoss(normalise="none"), GradientAlignment()])
def test_so_it_may_under_rewards(signal) -> None:
    teacher = KeepOrDrop(ByExample())
    reused = taught(signal, fill=Buffers(numpy=True), teacher=teacher)
    assert torch.equal(reused, taught(signal, teacher=teacher))


ONCE = [Unrolled(2), Reversible(2), Lookahead(), Lookahead(mode="restep")]


@pytest.mark.parametrize("signal", [*ONCE, Lookahead(evaluate_on="next")], ids=str)
def test_a_student_may_write_to_its_inputs(signal) -> None:
    def run(in_place: bool) -> Tensor:
        torch.manual_seed(0)
        return taught(signal, student=Standardises(in_place=in_place))

    assert torch.equal(run(in_place=True), run(in_place=False))


@pytest.mark.parametrize("signal", ONCE, ids=str)
def test_an_objective_may_write_to_its_targets(signal) -> None:
    found, expected = (
        taught(signal, objective=softens(in_place=in_place), soft=True)
        for in_place in (True, False)
    )
    assert torch.equal(found, expected)


@pytest.mark.parametrize("signal", ONCE, ids=str)
def test_a_teacher_may_prepare_in_place(signal) -> None:
    found, expected = (
        taught(signal, teacher=Shifts(in_place=in_place)) for in_place in (True, False)
    )
    assert torch.equal(found, expected)


def test_the_users_own_tensor_is_written_to_as_in_a_plain_loop_and_held_out_ones_never() -> (
    None
):
    torch.manual_seed(0)
    student, teacher = Standardises(in_place=True).double(), ByExample()
    for signal in (Lookahead(), Lookahead(evaluate_on="next"), Unrolled(1)):
        tutor = Tutor(
            *(student, SGD(student.parameters(), lr=0.3)),
            *(teacher, SGD(teacher.parameters(), lr=0.5)),
            signal=signal,
        )
        batch, judge = rows_of(0), rows_of(1)
        before, judged = batch.inputs.clone(), judge.inputs.clone()
        tutor.step(batch, judge)
        assert torch.equal(batch.inputs, (before - 1.0) / 2.0)
        assert torch.equal(judge.inputs, judged)


def test_a_student_that_writes_to_its_inputs_sees_each_micro_batch_as_it_came() -> None:
    def run(micro_batch: int | None) -> Tensor:
        torch.manual_seed(0)
        student = Standardises(in_place=True).double()
        optimizer = SGD(student.parameters(), lr=0.3)
        tutor = Tutor(student, optimizer, ByExample(), micro_batch=micro_batch)
        for step in range(3):
            tutor.step(rows_of(step))
        return torch.cat([p.detach().flatten() for p in student.parameters()])

    torch.testing.assert_close(run(2), run(None), rtol=1e-12, atol=0)


def test_whole_runs_may_come_from_an_iterator_that_fills_one_buffer() -> None:
    def run(fill: Callable[[Batch], Batch]) -> Tensor:
        def make_student(_: int) -> tuple[nn.Module, SGD]:
            torch.manual_seed(0)
            student = Body().double()
            return student, SGD(student.parameters(), lr=0.3)

        teacher = ByExample()
        runs = episodic(
            make_student,
            teacher,
            SGD(teacher.parameters(), lr=1.0),
            lambda _: (fill(rows_of(step)) for step in range(3)),
            lambda _: rows_of(100),
            signal=Replayed(3),
            objective=plain,
        )
        next(runs)
        return teacher.phi.detach()

    assert torch.equal(run(Buffers(numpy=True)), run(lambda batch: batch))
