"""ResNets for CIFAR with 6n+2 layers and parameter-free shortcuts.

Source: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, section 4.2.
"""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tutelage.errors import UsageError


class _Block(nn.Module):
    # Option A: where the shape changes, the shortcut drops every other pixel and pads the
    # channels with zeros.
    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inward, outward, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outward)
        self.conv2 = nn.Conv2d(outward, outward, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outward)
        self.stride = stride
        extra = outward - inward
        self.padding = (0, 0, 0, 0, extra // 2, extra - extra // 2)

    def forward(self, x: Float[Tensor, "B _ H W"]) -> Float[Tensor, "B _ h w"]:
        shortcut = F.pad(x[:, :, :: self.stride, :: self.stride], self.padding)
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)) + shortcut)


def stage(
    block: Callable[[int, int, int], nn.Module],
    count: int,
    inward: int,
    outward: int,
    stride: int,
) -> nn.Sequential:
    """A stage of blocks, the first of which changes channels and size."""
    rest = [block(outward, outward, 1) for _ in range(count - 1)]
    return nn.Sequential(block(inward, outward, stride), *rest)


class CifarResNet(nn.Module):
    """A 3x3 stem, three stages of n = (depth - 2) / 6 blocks, global average pool, linear.

    The stages have ``width``, 2 ``width`` and 4 ``width`` channels and strides 1, 2, 2.
    Images of any size do, 28x28 and grey ones included.

    Attributes:
        pool: Its output [B, 4 * width] feeds ``fc``.
        fc: The linear head.
    """

    def __init__(self, depth: int, classes: int, channels: int = 3, width: int = 16) -> None:
        """Draw the weights Kaiming-normal from torch's global generator; biases are zero."""
        super().__init__()
        if depth < 8 or depth % 6 != 2:
            raise UsageError(
                f"a CIFAR ResNet got depth {depth} but has 6n+2 layers; take 8, 20, 32, 44,"
                " 56 or 110"
            )
        count = (depth - 2) // 6
        self.conv = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.stage1 = stage(_Block, count, width, width, 1)
        self.stage2 = stage(_Block, count, width, 2 * width, 2)
        self.stage3 = stage(_Block, count, 2 * width, 4 * width, 2)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(4 * width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)
        nn.init.zeros_(self.fc.bias)

    def forward(self, images: Float[Tensor, "B channels H W"]) -> Float[Tensor, "B C"]:
        """The logits."""
        x = F.relu(self.bn(self.conv(images)))
        return self.fc(self.pool(self.stage3(self.stage2(self.stage1(x)))))


resnet8 = partial(CifarResNet, 8)
"""The CIFAR ResNet of 8 layers: 0.08M parameters at 10 classes."""
resnet20 = partial(CifarResNet, 20)
"""The CIFAR ResNet of 20 layers: 0.27M parameters at 10 classes."""
resnet32 = partial(CifarResNet, 32)
"""The CIFAR ResNet of 32 layers: 0.46M parameters at 10 classes."""
resnet44 = partial(CifarResNet, 44)
"""The CIFAR ResNet of 44 layers: 0.66M parameters at 10 classes."""
resnet56 = partial(CifarResNet, 56)
"""The CIFAR ResNet of 56 layers: 0.85M parameters at 10 classes."""
resnet110 = partial(CifarResNet, 110)
"""The CIFAR ResNet of 110 layers: 1.7M parameters at 10 classes."""
