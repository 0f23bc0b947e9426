"""Several random crops of each image, cut from it as it is stored."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import UInt8
from torch import Tensor

from papers.data.streamed import Examples
from tutelage.errors import MissingExtraError, UsageError

try:
    from torchvision.transforms import RandomResizedCrop
    from torchvision.transforms.v2 import functional as vision
except ImportError as error:
    raise MissingExtraError("torchvision", "train") from error

SHARE = (0.08, 1.0)
"""of an image's area that a crop has"""
RATIO = (3 / 4, 4 / 3)
"""of a crop's width to its height, before it is scaled"""
CENTRE = 0.875
"""side of the middle square, of the image's shorter side"""


@dataclass(frozen=True)
class Crops:
    """N images of any size, each as square crops of one size: inputs [copies, C, S, S].

    A crop is a part of random place, area and proportions, scaled, and mirrored with
    probability 1/2; the first one may be the middle of the image instead. What is drawn comes
    from torch's generator, which ``Streamed`` starts anew for each image and epoch.

    Source: Szegedy et al. 2015, Going Deeper with Convolutions, section 6, as torchvision has
    it in ``RandomResizedCrop``.
    """

    images: Examples
    """bytes [C, H, W] and a target each"""
    side: int
    """S, pixels"""
    copies: int
    original: bool
    """whether the first is the middle of the image, never mirrored"""
    flip: bool = True

    def __post_init__(self) -> None:
        for name in ("side", "copies"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; allowed: 1 and above.")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def ids(self) -> Tensor | None:
        """Those of the images, where they have some."""
        return getattr(self.images, "ids", None)

    def __getitem__(self, row: int) -> tuple[UInt8[Tensor, "copies C S S"], Any]:
        """Read an image, and cut it."""
        image, target = self.images[row]
        made = [self._middle(image)] if self.original else []
        made += [self._crop(image) for _ in range(self.copies - self.original)]
        return torch.stack(made), target

    def _middle(self, image: Tensor) -> Tensor:
        shorter = max(self.side, round(self.side / CENTRE))
        near = vision.resize(image, [shorter], antialias=True)
        return vision.center_crop(near, [self.side, self.side])

    def _crop(self, image: Tensor) -> Tensor:
        top, left, height, width = RandomResizedCrop.get_params(image, list(SHARE), list(RATIO))
        size = [self.side, self.side]
        made = vision.resized_crop(image, top, left, height, width, size, antialias=True)
        mirrored = self.flip and float(torch.rand(())) < 0.5
        return vision.horizontal_flip(made) if mirrored else made
