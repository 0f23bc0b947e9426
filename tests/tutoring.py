"""What the tests of a tutor share: one that teaches, a mixed student, a teacher of copies."""

import gc
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

from tests.cases import C, D, InputWeigher, build
from tutelage.signals import Signal
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, PreparedBatch


class Copies(nn.Module):
    """Prepares two noisy copies of each example."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.1))

    def prepare(self, batch: Batch) -> PreparedBatch:
        rows = torch.arange(len(batch.ids)).repeat_interleave(2)
        noise = self.scale * torch.randn(len(rows), D, dtype=batch.inputs.dtype)
        return PreparedBatch(
            batch.inputs[rows] + noise, batch.targets[rows], batch.ids[rows], rows
        )


class _Tanh(torch.autograd.Function):
    """Has derivatives of every order, but no forward mode."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * (1 - x.tanh() ** 2)


class WithoutForwardMode(nn.Module):
    """The hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        return _Tanh.apply(x)


def mixed_student() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (2, 2, 2)),
        nn.Conv2d(2, 4, 2, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(36, C),
    ).double()


def same(a: Any, b: Any) -> bool:
    """Whether two nests of dictionaries, sequences and tensors are bit for bit equal."""
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def live_tensors() -> int:
    """How many tensors there are, what can be collected left out."""
    gc.collect()
    return sum(issubclass(type(thing), Tensor) for thing in gc.get_objects())


def teaching(
    signal: Signal,
    *,
    every: int | None = None,
    student: nn.Module | None = None,
    teacher: nn.Module | None = None,
    **settings: Any,
) -> Tutor:
    """A tutor in float64 with momentum SGD below and plain SGD above."""
    student = build("relu network") if student is None else student
    teacher = InputWeigher().double() if teacher is None else teacher
    return Tutor(
        student,
        SGD(student.parameters(), lr=0.1, momentum=0.9),
        teacher,
        SGD(teacher.parameters(), lr=0.1),
        signal=signal,
        teacher_every=signal.steps if every is None else every,
        **settings,
    )
