"""Images turned about their centre, each by an angle of its own."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

_TURNED_AT_ONCE = 1000
"""images; bounds the memory"""


def rotated(
    images: UInt8[Tensor, "N channels H W"], degrees: Float[Tensor, "N"]
) -> UInt8[Tensor, "N channels H W"]:
    """Every image turned about its centre, filled with zeros, interpolated bilinearly."""
    if not len(images):
        return images.clone()
    pairs = zip(images.split(_TURNED_AT_ONCE), degrees.split(_TURNED_AT_ONCE), strict=True)
    return torch.cat([_turned(*pair) for pair in pairs])


def _turned(images: Tensor, degrees: Tensor) -> Tensor:
    # Grid coordinates run from -1 to 1 along each side, so a turn of a rectangle also scales.
    height, width = images.shape[-2:]
    radians = degrees.to(torch.float32).deg2rad()
    cos, sin, zero = radians.cos(), radians.sin(), torch.zeros_like(radians)
    rows = [cos, -sin * height / width, zero, sin * width / height, cos, zero]
    grid = F.affine_grid(
        torch.stack(rows, 1).view(-1, 2, 3), list(images.shape), align_corners=False
    )
    turned = F.grid_sample(images.float(), grid, mode="bilinear", align_corners=False)
    return turned.round().clamp(0, 255).to(torch.uint8)
