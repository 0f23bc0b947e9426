"""A step that is tried before it is taken starts from the buffers that it will start from."""

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tests.cases import C, D, InputWeigher, stream
from tutelage.signals import Lookahead, Signal, Unrolled
from tutelage.signals.products import DoubleBackward
from tutelage.training.tutor import Tutor


class Counting(nn.Module):
    """Divides by the number of its forward passes."""

    passes: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(D, C)
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        return self.map(x) / self.passes


def learned(signal: Signal) -> tuple[Tensor, float]:
    """What the teacher learns at one step, and how often the student was run."""
    torch.manual_seed(0)
    student, teacher = Counting().double(), InputWeigher().double()
    before = torch.cat([p.detach().flatten().clone() for p in teacher.parameters()])
    optimizer, learner = SGD(student.parameters(), lr=0.5), SGD(teacher.parameters(), lr=1.0)
    tutor = Tutor(student, optimizer, teacher, learner, signal=signal)
    tutor.step(next(stream(0)), next(stream(1)))
    after = torch.cat([p.detach().flatten() for p in teacher.parameters()])
    return before - after, float(student.passes)


@pytest.mark.parametrize("mode", ["restep", "virtual"])
def test_the_step_is_tried_from_the_buffers_before_it(mode) -> None:
    got, passes = learned(Lookahead(DoubleBackward(), mode=mode))
    want, _ = learned(Unrolled(1))
    torch.testing.assert_close(got, want, rtol=1e-9, atol=0)
    assert passes == 1
