"""The CIFAR ResNets have the paper's parameter counts, shapes and initialisation."""

import math

import pytest
import torch

from tutelage import models
from tutelage.errors import UsageError
from tutelage.models.cifar_resnet import CifarResNet

PAPER = {20: 0.27, 32: 0.46, 44: 0.66, 56: 0.85, 110: 1.7}
BUILDERS = {
    8: models.resnet8,
    20: models.resnet20,
    32: models.resnet32,
    44: models.resnet44,
    56: models.resnet56,
    110: models.resnet110,
}


def by_hand(depth, classes, channels=3, width=16):
    n = (depth - 2) // 6

    def conv(inward, outward):
        return 9 * inward * outward + 2 * outward  # the weights, then the batch-norm's two

    total = conv(channels, width)
    inward = width
    for outward in (width, 2 * width, 4 * width):
        total += conv(inward, outward) + (2 * n - 1) * conv(outward, outward)
        inward = outward
    return total + 4 * width * classes + classes


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("depth", BUILDERS)
def test_parameter_count_is_that_of_the_paper(depth):
    with torch.device("meta"):
        model = BUILDERS[depth](classes=10)
    assert count(model) == by_hand(depth, 10)
    if depth in PAPER:
        # The paper rounds to two figures, 0.464M to 0.46M.
        assert count(model) / 1e6 == pytest.approx(
            PAPER[depth], abs=0.04 if depth > 56 else 6e-3
        )


def test_resnet20_has_the_widely_quoted_count():
    assert count(models.resnet20(classes=10)) == 269_722


@pytest.mark.parametrize(("channels", "size", "width"), [(3, 32, 16), (1, 28, 16), (1, 27, 5)])
def test_pool_feeds_the_head_at_any_size(channels, size, width):
    model = models.resnet8(classes=7, channels=channels, width=width)
    seen = []
    model.pool.register_forward_hook(lambda *call: seen.append(call[2]))
    assert model(torch.rand(2, channels, size, size)).shape == (2, 7)
    assert seen[0].shape == (2, 4 * width)
    assert count(model) == by_hand(8, 7, channels, width)


def test_shortcut_drops_every_other_pixel_and_pads_channels_with_zeros():
    block = models.resnet8(classes=2).eval().get_submodule("stage2.0")
    torch.nn.init.zeros_(block.get_parameter("bn2.weight"))  # leaves the shortcut alone
    images = torch.rand(2, 16, 8, 8)
    out = block(images)
    assert torch.equal(out[:, 8:24], images[:, :, ::2, ::2])
    assert out[:, :8].count_nonzero() == out[:, 24:].count_nonzero() == 0


def test_weights_are_kaiming_normal_and_biases_zero():
    model = CifarResNet(20, 10)
    weight = model.get_parameter("stage3.1.conv1.weight")
    # 36,864 draws: the sample deviation is within 2% with certainty for practical purposes.
    assert weight.std().item() == pytest.approx(math.sqrt(2 / (9 * 64)), rel=0.02)
    assert model.fc.bias.count_nonzero() == 0


@pytest.mark.parametrize("depth", [-4, 0, 2, 18, 21])
def test_depth_must_be_6n_plus_2(depth):
    with pytest.raises(UsageError, match=f"got depth {depth} but has 6n\\+2 layers"):
        CifarResNet(depth, 10)
