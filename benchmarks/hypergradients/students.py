"""ResNet-20 with the norm of one's choice."""

from collections.abc import Callable
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.command import size

Norm = Callable[[int], nn.Module]


def group_norm(channels: int) -> nn.Module:
    """Group normalisation with eight groups.

    Args:
        channels: Channels.

    Returns:
        The layer.
    """
    return nn.GroupNorm(8, channels)


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inward: int, outward: int, norm: Norm) -> None:
        super().__init__()
        stride = outward // inward
        self.first = nn.Conv2d(inward, outward, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outward, outward, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([norm(outward), norm(outward)])
        self.shortcut = (
            nn.Identity() if stride == 1 else nn.Conv2d(inward, outward, 1, stride, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Run the block.

        Args:
            x: Its input.

        Returns:
            Its output.
        """
        inside = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(inside)) + self.shortcut(x))


def resnet20(norm: Norm) -> nn.Module:
    """A ResNet-20 for 32x32 images, 0.27 million parameters.

    Args:
        norm: From a number of channels to a layer.

    Returns:
        The student, of ten classes.
    """
    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64][:: size(1, 3)]
    blocks = [Block(a, b, norm) for a, b in pairwise(widths)]
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), norm(16), nn.ReLU()]
    return nn.Sequential(
        *stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    )
