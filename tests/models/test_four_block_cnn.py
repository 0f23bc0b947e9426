"""Four blocks halve an image four times; its features are as wide as they say."""

import pytest
import torch
from torch import nn

from tutelage.errors import UsageError
from tutelage.models import FourBlockCNN, FourBlocks


@pytest.mark.parametrize(
    ("size", "width", "features"), [(28, 64, 64), (32, 64, 256), (84, 32, 800), (16, 3, 3)]
)
def test_features_are_as_wide_as_the_papers(size, width, features) -> None:
    blocks = FourBlocks(3, size, width=width)
    assert blocks.features == features
    assert blocks(torch.rand(2, 3, size, size)).shape == (2, features)
    assert FourBlockCNN(3, 7, size, width=width)(torch.rand(2, 3, size, size)).shape == (2, 7)


def test_each_block_is_convolution_norm_relu_and_pool() -> None:
    blocks = FourBlocks(1, 28)
    assert len(blocks.blocks) == 4
    for block in blocks.blocks:
        kinds = [type(part) for part in block.children()]
        assert kinds == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.MaxPool2d]
    # 3x3 convolutions with bias, and two numbers per channel of a norm
    count = sum(p.numel() for p in blocks.parameters())
    assert count == (9 * 64 + 64) + 3 * (9 * 64 * 64 + 64) + 4 * 128


def test_images_too_small_are_refused() -> None:
    with pytest.raises(UsageError, match="15x15 pixels but needs 16x16"):
        FourBlockCNN(3, 10, 15)
