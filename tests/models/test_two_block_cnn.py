"""The two-block CNN has the paper's shapes and refuses images it would pool away."""

import pytest
import torch

from tutelage.errors import UsageError
from tutelage.models.two_block_cnn import TwoBlockCNN


@pytest.mark.parametrize(("channels", "size", "features"), [(1, 28, 64), (3, 32, 256)])
def test_pool_gives_the_papers_feature_sizes(channels, size, features):
    model = TwoBlockCNN(channels, 10, size)
    seen = []
    model.pool.register_forward_hook(lambda *call: seen.append(call[2]))
    assert model(torch.rand(2, channels, size, size)).shape == (2, 10)
    assert seen[0].shape == (2, features)
    assert model.fc.in_features == features


def test_parameter_count_is_the_sum_over_its_five_layers():
    model = TwoBlockCNN(3, 10, 32)
    convolutions = (3 * 5 * 5 * 32 + 32) + (32 * 3 * 3 * 64 + 64)
    norms = 2 * 32 + 2 * 64
    head = 256 * 10 + 10
    assert sum(p.numel() for p in model.parameters()) == convolutions + norms + head


@pytest.mark.parametrize("size", [13, 14, 17, 28, 31, 32, 33, 40, 64, 65])
def test_head_fits_every_image_size(size):
    assert TwoBlockCNN(1, 2, size)(torch.rand(2, 1, size, size)).shape == (2, 2)


def test_commentary_hears_a_constant_channel_through_the_zero_border():
    model = TwoBlockCNN(2, 1, 28)
    digits = torch.rand(8, 1, 28, 28)
    start = model(torch.cat([digits, torch.zeros_like(digits)], 1))
    end = model(torch.cat([digits, torch.ones_like(digits)], 1))
    assert start.shape == (8, 1)
    assert (start - end).abs().max() > 1e-4


def test_too_small_images_are_refused_with_the_least_size():
    with pytest.raises(UsageError, match="got images of 12x12 pixels but needs 13x13"):
        TwoBlockCNN(3, 10, 12)
