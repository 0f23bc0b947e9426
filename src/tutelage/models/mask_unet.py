"""A small U-Net with one logit for every pixel."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tutelage.errors import UsageError


class MaskUNet(nn.Module):
    """A U-Net of ``levels`` halvings with skip connections.

    Two 3x3 convolutions at every size, each followed by GroupNorm with one group and ReLU;
    max-pooling down, nearest-neighbour up to the exact size of what was there, so that H and W
    may be anything; channels double at each level. There is no batch normalisation: what an
    image gets does not depend on the batch, nor on training or evaluation mode. The last layer
    has no bias, which a softmax over pixels would not see.

    Source: Ronneberger et al. 2015, U-Net, as the commentary network of Raghu et al. 2021,
    Teaching with Commentaries, section 5; size and normalisation are ours.

    Args:
        channels: Channels of an input image.
        width: Channels at full size.
        levels: How often the image is halved.

    Raises:
        UsageError: If width or levels is below 1.
    """

    def __init__(self, channels: int, *, width: int = 16, levels: int = 2) -> None:
        super().__init__()
        if width < 1 or levels < 1:
            raise UsageError(f"width and levels must be 1 or above, got {width} and {levels}.")
        self.channels = channels
        self.width = width
        self.levels = levels
        widths = [width * 2**level for level in range(levels + 1)]
        self.down = nn.ModuleList(
            _block(before, after)
            for before, after in zip([channels, *widths], widths, strict=False)
        )
        self.up = nn.ModuleList(
            _block(below + beside, beside)
            for below, beside in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )
        self.last = nn.Conv2d(width, 1, 1, bias=False)

    def forward(self, images: Float[Tensor, "B channels H W"]) -> Float[Tensor, "B 1 H W"]:
        """One logit per pixel."""
        x, beside = self.down[0](images), []
        for block in self.down[1:]:
            beside.append(x)
            x = block(F.max_pool2d(x, 2, ceil_mode=True))
        for block, seen in zip(self.up, reversed(beside), strict=True):
            x = block(torch.cat([F.interpolate(x, seen.shape[-2:]), seen], 1))
        return self.last(x)


def _block(before: int, after: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in (before, after):
        layers += [nn.Conv2d(width, after, 3, padding=1), nn.GroupNorm(1, after), nn.ReLU()]
    return nn.Sequential(*layers)
