"""Meta-Weight-Net is a two-layer network of each example's own loss."""

import pytest
import torch
from torch import nn

from tests.cases import B, stream
from tutelage.losses.objectives import weighted_loss
from tutelage.teacher import normalise_of
from tutelage.teachers import LossWeigher
from tutelage.types import Observation, PreparedBatch, Progress, as_prepared


def shown(losses: torch.Tensor) -> tuple[PreparedBatch, Observation]:
    return as_prepared(next(stream())), Observation(
        losses, torch.zeros(len(losses), 1), {}, Progress()
    )


def test_the_paper_has_one_hidden_layer_of_100_units() -> None:
    teacher = LossWeigher()
    shapes = [tuple(p.shape) for p in teacher.parameters()]
    assert shapes == [(100, 1), (100,), (1, 100), (1,)]
    assert any(isinstance(layer, nn.ReLU) for layer in teacher.net)


def test_weights_are_the_sigmoid_of_the_network_of_each_loss_alone() -> None:
    torch.manual_seed(0)
    teacher = LossWeigher(width=7).double()
    losses = torch.linspace(0, 5, B, dtype=torch.float64)
    got = teacher.weigh(*shown(losses))
    w1, b1, w2, b2 = (p.detach() for p in teacher.parameters())
    for i, loss in enumerate(losses):
        hidden = (w1[:, 0] * loss + b1).clamp(min=0)
        want = 1 / (1 + torch.exp(-(w2[0] @ hidden + b2[0])))
        assert got[i].item() == pytest.approx(want.item(), rel=1e-12)
    assert got.shape == (B,)
    assert ((got > 0) & (got < 1)).all()


def test_equal_losses_get_equal_weights_and_so_train_as_no_teacher_does() -> None:
    torch.manual_seed(0)
    teacher = LossWeigher().double()
    prepared, seen = shown(torch.full((B,), 2.0, dtype=torch.float64))
    loss = weighted_loss(seen.losses, teacher.weigh(prepared, seen), prepared.group, "mean")
    assert loss.item() == pytest.approx(2.0, rel=1e-14)


def test_its_weights_are_rescaled_over_the_batch_unless_asked_otherwise() -> None:
    assert normalise_of(LossWeigher()) == "mean"
    assert normalise_of(LossWeigher(normalise=None)) is None
    with pytest.raises(ValueError, match="'mean' or None, got 'group'"):
        LossWeigher(normalise="group")
