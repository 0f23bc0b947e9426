"""The small convolutional network of Raghu et al. 2021.

Source: Raghu et al., "Teaching with Commentaries", ICLR 2021, and its official code.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tutelage.errors import UsageError


class TwoBlockCNN(nn.Module):
    """Two blocks of convolution, batch-norm, ReLU and max-pool, then one linear layer.

    Conv(channels, 32, 5x5, stride 2, pad 2) - BN - ReLU - MaxPool(3, stride 2) -
    Conv(32, 64, 3x3, stride 2, pad 2) - BN - ReLU - MaxPool(3, stride 2) - Linear(F, outputs)

    As a student ``outputs`` is the number of classes; as a commentary it is 1, and the
    caller applies the sigmoid. Padding is with zeros: a constant extra channel, such as the
    iteration, passes train-mode batch-norm only through that border.

    Attributes:
        pool: Its output [B, F] feeds ``fc``; F = 64 for 28x28 inputs, 256 for 32x32.
        fc: The linear head.
    """

    def __init__(self, channels: int, outputs: int, size: int) -> None:
        """Draw the weights from torch's global generator, by torch's defaults."""
        super().__init__()
        if size < 13:
            raise UsageError(
                f"the two-block CNN got images of {size}x{size} pixels but needs 13x13 at"
                " least; enlarge the images (--image-size 16 on the command line)"
            )
        self.channels = channels
        self.size = size
        self.conv1 = nn.Conv2d(channels, 32, 5, stride=2, padding=2)
        self.bn1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 64, 3, stride=2, padding=2)
        self.bn2 = nn.BatchNorm2d(64)
        self.pool = nn.Sequential(nn.MaxPool2d(3, stride=2), nn.Flatten())
        self.fc = nn.Linear(64 * _side(size) ** 2, outputs)

    def forward(self, images: Float[Tensor, "B channels H W"]) -> Float[Tensor, "B outputs"]:
        """The outputs before any softmax or sigmoid."""
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(images))), 3, stride=2)
        return self.fc(self.pool(F.relu(self.bn2(self.conv2(x)))))


def _side(size: int) -> int:
    x = (size - 1) // 2 + 1  # 5x5, stride 2, pad 2
    x = (x - 3) // 2 + 1  # max-pool 3, stride 2
    x = (x + 1) // 2 + 1  # 3x3, stride 2, pad 2
    return (x - 3) // 2 + 1  # max-pool 3, stride 2
