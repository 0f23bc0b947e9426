"""Wide residual networks: few layers, many channels, pre-activation blocks without dropout.

Source: Zagoruyko and Komodakis, "Wide Residual Networks", BMVC 2016.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tutelage.errors import UsageError
from tutelage.models.cifar_resnet import stage


class _Block(nn.Module):
    # Where the number of channels changes, the 1x1 shortcut starts from the activated input,
    # as in the authors' code; elsewhere it is the input itself.
    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inward)
        self.conv1 = nn.Conv2d(inward, outward, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outward)
        self.conv2 = nn.Conv2d(outward, outward, 3, padding=1, bias=False)
        self.shortcut = (
            None
            if inward == outward
            else nn.Conv2d(inward, outward, 1, stride=stride, bias=False)
        )

    def forward(self, x: Float[Tensor, "B _ H W"]) -> Float[Tensor, "B _ h w"]:
        active = F.relu(self.bn1(x))
        kept = x if self.shortcut is None else self.shortcut(active)
        return kept + self.conv2(F.relu(self.bn2(self.conv1(active))))


class WideResNet(nn.Module):
    """A 3x3 stem, three stages of (depth - 4) / 6 blocks, BN, ReLU, average pool, linear.

    The stem has 16 channels, the stages 16, 32 and 64 times ``widen``, with strides 1, 2, 2.

    Attributes:
        pool: Its output [B, 64 * widen] feeds ``fc``.
        fc: The linear head.
    """

    def __init__(self, depth: int, widen: int, classes: int, channels: int = 3) -> None:
        """Draw the convolutions Kaiming-normal by fan-out from torch's global generator."""
        super().__init__()
        if depth < 10 or depth % 6 != 4:
            raise UsageError(
                f"a wide ResNet got depth {depth} but has 6n+4 layers; take 10, 16, 22, 28"
                " or 40"
            )
        if widen < 1:
            raise UsageError(f"a wide ResNet got widen {widen}; take 1 or more")
        count = (depth - 4) // 6
        self.conv = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        self.stage1 = stage(_Block, count, 16, 16 * widen, 1)
        self.stage2 = stage(_Block, count, 16 * widen, 32 * widen, 2)
        self.stage3 = stage(_Block, count, 32 * widen, 64 * widen, 2)
        self.bn = nn.BatchNorm2d(64 * widen)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(64 * widen, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.fc.bias)

    def forward(self, images: Float[Tensor, "B channels H W"]) -> Float[Tensor, "B C"]:
        """The logits."""
        x = self.stage3(self.stage2(self.stage1(self.conv(images))))
        return self.fc(self.pool(F.relu(self.bn(x))))


def wrn(depth: int, widen: int, *, classes: int, channels: int = 3) -> WideResNet:
    """The wide ResNet WRN-depth-widen: WRN-28-10 has 36.5M parameters at 10 classes.

    Args:
        depth: Layers with weights on the longest path, 6n+4.
        widen: Factor on the channels of every stage.
        classes: Columns of the output.
        channels: Channels of an input image.

    Returns:
        The network, freshly initialised.
    """
    return WideResNet(depth, widen, classes, channels)
