"""Weights over a support set have mean exactly 1 and depend on image, label and step."""

import pytest
import torch
from torch import Tensor, nn

from tests.teachers.finite import assert_exact
from tutelage.losses.objectives import weighted_loss
from tutelage.models import FourBlocks
from tutelage.teacher import normalise_of, uses_progress
from tutelage.teachers import SupportWeights
from tutelage.types import Batch, Observation, PreparedBatch, Progress, as_prepared

SIZE, C = 4, 3


def teacher(width: int = 4) -> SupportWeights:
    torch.manual_seed(1)
    convolution = nn.Conv2d(2, 3, 3, padding=1, bias=False)
    network = nn.Sequential(convolution, nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten())
    return SupportWeights(network, features=3 * SIZE**2, classes=C, width=width).double()


def support(seed: int, size: int = 5) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(size, 1, SIZE, SIZE, generator=generator, dtype=torch.float64)
    y = torch.randint(0, C, (size,), generator=generator)
    return Batch(x, y, torch.arange(size))


def weights(of: SupportWeights, prepared: PreparedBatch, fraction: float) -> Tensor:
    losses = torch.zeros(len(prepared.ids), dtype=torch.float64)
    return of.weigh(prepared, Observation(losses, losses.unsqueeze(1), {}, Progress(fraction)))


@pytest.mark.parametrize("size", [1, 2, 5, 25])
def test_their_mean_is_exactly_one_and_the_loss_their_plain_mean(size) -> None:
    prepared = as_prepared(support(0, size))
    w = weights(teacher(), prepared, 0.4)
    assert w.shape == (size,)
    assert (w > 0).all()
    assert w.mean().item() == pytest.approx(1.0, rel=1e-12)
    losses = torch.rand(size, dtype=torch.float64)
    loss = weighted_loss(losses, w, prepared.group, normalise_of(teacher()))
    torch.testing.assert_close(loss, (w * losses).mean())


def test_they_depend_on_the_label_the_image_and_the_step() -> None:
    prepared = as_prepared(support(0))
    w = weights(teacher(), prepared, 0.4)
    other = (prepared.targets + 1) % C
    for changed in (
        prepared._replace(targets=other),
        prepared._replace(inputs=prepared.inputs**2),
    ):
        assert (weights(teacher(), changed, 0.4) - w).abs().max() > 1e-4
    assert (weights(teacher(), prepared, 0.8) - w).abs().max() > 1e-4
    assert uses_progress(teacher())


def test_steps_after_the_last_that_was_learnt_on_count_as_the_last() -> None:
    prepared = as_prepared(support(0))
    assert torch.equal(weights(teacher(), prepared, 2.8), weights(teacher(), prepared, 1.0))


def test_the_label_goes_through_an_embedding_and_two_layers_follow() -> None:
    made = SupportWeights(FourBlocks(4, 32, width=8), features=32, classes=5)
    shapes = [tuple(p.shape) for p in (*made.embed.parameters(), *made.head.parameters())]
    assert shapes == [(64, 5), (64,), (64, 96), (64,), (1, 64), (1,)]
    images = torch.rand(5, 3, 32, 32)
    prepared = as_prepared(Batch(images, torch.arange(5), torch.arange(5)))
    losses = torch.zeros(5)
    w = made.weigh(prepared, Observation(losses, losses.unsqueeze(1), {}, Progress(0.2)))
    assert w.mean().item() == pytest.approx(1.0, rel=1e-6)


def test_weights_that_vanish_give_no_nan() -> None:
    made = teacher()
    last = made.head[-1]
    assert isinstance(last, nn.Linear)
    nn.init.constant_(last.bias, -1e5)
    w = weights(made, as_prepared(support(0)), 0.4)
    assert not w.any()
    w.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in made.parameters())


def test_its_batch_normalisation_stays_with_the_batch_at_hand() -> None:
    made, prepared = teacher(), as_prepared(support(0))
    w = weights(made, prepared, 0.4)
    made.eval()
    assert not made.training
    assert made.network.training
    assert torch.equal(weights(made, prepared, 0.4), w)


def student() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(3 * (SIZE - 1) ** 2, C)
    ).double()


def test_the_hypergradient_is_the_slope_of_real_training() -> None:
    estimate = assert_exact(student, teacher(), [support(1), support(2)], support(9))
    for name, grad in estimate.grad.items():
        assert grad.isfinite().all(), name
        assert grad.any(), name
