"""ImageNet ResNets with a 3x3 stem and no max-pool, for small images.

Source: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, table 1, with
the stem of the widespread CIFAR implementation by Kuang Liu (pytorch-cifar).
"""

from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tutelage.models.cifar_resnet import stage


class _Block(nn.Module):
    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inward, outward, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outward)
        self.conv2 = nn.Conv2d(outward, outward, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outward)
        self.shortcut = (
            nn.Identity()
            if inward == outward
            else nn.Sequential(
                nn.Conv2d(inward, outward, 1, stride=stride, bias=False),
                nn.BatchNorm2d(outward),
            )
        )

    def forward(self, x: Float[Tensor, "B _ H W"]) -> Float[Tensor, "B _ h w"]:
        kept = self.shortcut(x)
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)) + kept)


class CifarStemResNet(nn.Module):
    """Four stages of 64, 128, 256 and 512 channels behind a 3x3 stem of 64, then linear.

    Where the shape changes, the shortcut is a 1x1 convolution with batch-norm.

    Attributes:
        pool: Its output [B, 512] feeds ``fc``.
        fc: The linear head.
    """

    def __init__(
        self, blocks: tuple[int, int, int, int], classes: int, channels: int = 3
    ) -> None:
        """Draw the weights from torch's global generator, by torch's defaults."""
        super().__init__()
        self.conv = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(64)
        self.stage1 = stage(_Block, blocks[0], 64, 64, 1)
        self.stage2 = stage(_Block, blocks[1], 64, 128, 2)
        self.stage3 = stage(_Block, blocks[2], 128, 256, 2)
        self.stage4 = stage(_Block, blocks[3], 256, 512, 2)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(512, classes)

    def forward(self, images: Float[Tensor, "B channels H W"]) -> Float[Tensor, "B C"]:
        """The logits."""
        x = F.relu(self.bn(self.conv(images)))
        x = self.stage4(self.stage3(self.stage2(self.stage1(x))))
        return self.fc(self.pool(x))


resnet18_cifar = partial(CifarStemResNet, (2, 2, 2, 2))
"""The ResNet-18 for small images: 11.17M parameters at 10 classes."""
resnet34_cifar = partial(CifarStemResNet, (3, 4, 6, 3))
"""The ResNet-34 for small images: 21.28M parameters at 10 classes."""
