"""A curriculum sees how far training has come, only through the zero border of its input."""

from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from tests.teachers.finite import assert_exact
from tests.trained import unchecked
from tutelage.models import TwoBlockCNN
from tutelage.teachers import Curriculum
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, PreparedBatch, Progress, as_prepared

L = 16
Padding = Literal["zeros", "circular"]


def images() -> PreparedBatch:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(L, 1, 28, 28, generator=generator)
    return as_prepared(Batch(pixels, torch.zeros(L, dtype=torch.long), torch.arange(L)))


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
    prepared = images()
    teacher.weigh(prepared, at(0.25))
    assert watching.seen.shape == (L, 2, 28, 28)
    assert torch.equal(watching.seen[:, :1], prepared.inputs)
    assert torch.equal(watching.seen[:, 1:], torch.full((L, 1, 28, 28), 0.25))


def test_weights_are_one_per_example_in_0_to_1_and_not_rescaled() -> None:
    weights = Curriculum(network(2)).weigh(images(), at(0.5))
    assert weights.shape == (L,)
    assert ((weights > 0) & (weights < 1)).all()
    assert Curriculum.normalise is None


@pytest.mark.parametrize(("beyond", "want"), [("paper", 16.5), ("safe", 1.0)])
def test_beyond_the_run_it_learnt_on_the_iteration_is_raw_or_one(
    beyond: Literal["paper", "safe"], want: float
) -> None:
    for fraction in (0.25, 16.5):
        watching = Watching()
        Curriculum(watching, beyond=beyond).weigh(images(), at(fraction))
        channel = watching.seen[:, 1:]
        assert torch.equal(channel, torch.full_like(channel, min(fraction, want)))


def test_training_beyond_total_steps_is_seen_by_the_teacher() -> None:
    watching = Watching()
    student = nn.Sequential(nn.Flatten(), nn.Linear(784, 2))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    tutor = Tutor(student, optimizer, Curriculum(watching), total_steps=2)
    for step in range(4):
        prepared = images()
        tutor.step(Batch(prepared.inputs, prepared.targets, prepared.ids))
        assert watching.seen[0, 1, 0, 0].item() == step / 2


def test_an_unknown_way_beyond_is_refused_with_the_known() -> None:
    with unchecked(), pytest.raises(ValueError, match=r"'save'.*mean 'safe'.*paper, safe"):
        Curriculum(Watching(), beyond="save")  # pyright: ignore[reportArgumentType] - refused


def test_its_batch_normalisation_stays_with_the_batch_at_hand() -> None:
    teacher = Curriculum(network(2))
    weights = teacher.weigh(images(), at(0.5))
    teacher.eval()
    assert not teacher.training
    assert teacher.network.training
    assert torch.equal(teacher.weigh(images(), at(0.5)), weights)


def tiny(*, iteration: bool) -> Curriculum:
    torch.manual_seed(1)
    head = nn.Linear(3 * 16, 1)
    convolution = nn.Conv2d(1 + iteration, 3, 3, padding=1, bias=False)
    layers = nn.Sequential(convolution, nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten(), head)
    return Curriculum(layers, iteration=iteration).double()


def small_student() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def small_batch(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(5, 1, 4, 4, generator=generator, dtype=torch.float64)
    return Batch(x, torch.randint(0, 3, (5,), generator=generator), torch.arange(5))


@pytest.mark.parametrize("iteration", [True, False])
def test_the_hypergradient_is_the_slope_of_real_training(iteration) -> None:
    batches = [small_batch(1), small_batch(2)]
    estimate = assert_exact(small_student, tiny(iteration=iteration), batches, small_batch(9))
    assert all(grad.isfinite().all() and grad.any() for grad in estimate.grad.values())
