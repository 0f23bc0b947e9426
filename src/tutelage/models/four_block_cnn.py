"""The four-block convolutional network of few-shot learning.

Source: Finn et al. 2017, Model-Agnostic Meta-Learning, section 5.2; the commentary network of
Raghu et al. 2021, Teaching with Commentaries, appendices A and B.3.
"""

from jaxtyping import Float
from torch import Tensor, nn

from tutelage.errors import UsageError


class FourBlocks(nn.Module):
    """Four blocks of Conv(3x3, pad 1) - BatchNorm - ReLU - MaxPool(2), flattened.

    Padding is with zeros, as ``TwoBlockCNN``'s, and for its reason.

    Args:
        channels: Channels of an input image.
        size: Height and width of an input image, in pixels; 16 at least.
        width: Channels of every block.

    Attributes:
        features: F, columns of the output: ``width * (size // 16)^2``.

    Raises:
        UsageError: If ``size`` is so small that nothing is left of the image.
    """

    def __init__(self, channels: int, size: int, *, width: int = 64) -> None:
        if size < 16:
            raise UsageError(
                f"the four-block CNN got images of {size}x{size} pixels but needs 16x16 at"
                " least; enlarge the images (--image-size 16 on the command line)"
            )
        super().__init__()
        before = [channels, width, width, width]
        self.blocks = nn.Sequential(*(_block(ch, width) for ch in before))
        self.channels = channels
        self.size = size
        self.width = width
        self.features = width * (size // 16) ** 2

    def forward(self, images: Float[Tensor, "B channels H W"]) -> Float[Tensor, "B F"]:
        """The flattened features."""
        return self.blocks(images).flatten(1)


class FourBlockCNN(nn.Module):
    """``FourBlocks`` and one linear layer.

    Args:
        channels: Channels of an input image.
        outputs: Columns of the output.
        size: Height and width of an input image, in pixels; 16 at least.
        width: Channels of every block.

    Attributes:
        pool: Its output [B, F] feeds ``fc``.
        fc: The linear head.
    """

    def __init__(self, channels: int, outputs: int, size: int, *, width: int = 64) -> None:
        super().__init__()
        self.pool = FourBlocks(channels, size, width=width)
        self.fc = nn.Linear(self.pool.features, outputs)

    def forward(self, images: Float[Tensor, "B channels H W"]) -> Float[Tensor, "B outputs"]:
        """The logits."""
        return self.fc(self.pool(images))


def _block(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1),
        nn.BatchNorm2d(after),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )
