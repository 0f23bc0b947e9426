"""A curriculum sees how far training has come, only through the zero border of its input."""

from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from tutelage.models import TwoBlockCNN
from tutelage.records import Batch, Lesson, Observation, Progress, as_lesson
from tutelage.teachers import Curriculum

L = 16
Padding = Literal["zeros", "circular"]


def images() -> Lesson:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(L, 1, 28, 28, generator=generator)
    return as_lesson(Batch(pixels, torch.zeros(L, dtype=torch.long), torch.arange(L)))


def at(fraction: float) -> Observation:
    return Observation(torch.zeros(L), torch.zeros(L, 2), {}, Progress(fraction))


def network(channels: int, padding_mode: Padding = "zeros") -> TwoBlockCNN:
    torch.manual_seed(1)
    cnn = TwoBlockCNN(channels=channels, outputs=1, size=28)
    for conv in (cnn.conv1, cnn.conv2):
        conv.padding_mode = padding_mode
    return cnn


@pytest.mark.parametrize(
    ("padding_mode", "least", "most"), [("zeros", 1e-3, 1.0), ("circular", 0.0, 1e-6)]
)
def test_the_iteration_is_seen_through_zero_padding_only(padding_mode, least, most) -> None:
    # batch normalisation in training mode takes a constant channel out but at the border
    teacher = Curriculum(network(2, padding_mode))
    change = teacher.weigh(images(), at(0.0)) - teacher.weigh(images(), at(1.0))
    assert least <= change.abs().mean().item() < most


def test_the_ablation_without_iteration_ignores_progress() -> None:
    teacher = Curriculum(network(1), iteration=False)
    assert not teacher.uses_progress
    weights = [teacher.weigh(images(), at(fraction)) for fraction in (0.0, 0.5, 1.0)]
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])


class Watching(nn.Module):
    seen: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        return x.flatten(1)[:, :1]


def test_the_iteration_is_one_more_constant_channel_behind_the_image() -> None:
    watching = Watching()
    teacher = Curriculum(watching)
    assert teacher.uses_progress
    lesson = images()
    teacher.weigh(lesson, at(0.25))
    assert watching.seen.shape == (L, 2, 28, 28)
    assert torch.equal(watching.seen[:, :1], lesson.inputs)
    assert torch.equal(watching.seen[:, 1:], torch.full((L, 1, 28, 28), 0.25))


def test_weights_are_one_per_example_in_0_to_1_and_not_rescaled() -> None:
    weights = Curriculum(network(2)).weigh(images(), at(0.5))
    assert weights.shape == (L,)
    assert ((weights > 0) & (weights < 1)).all()
    assert Curriculum.normalise is None
