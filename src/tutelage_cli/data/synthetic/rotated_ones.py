"""Rotated ones; the label is the direction of the rotation."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.images import Described, ImageSet

_TURNED_AT_ONCE = 1000
"""images; bounds the memory"""
DIGIT = "1"
CLASSES = ("clockwise", "anticlockwise")


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


class Degrees(NamedTuple):
    """The angles of the class ``anticlockwise``; the other class has the opposite ones."""

    lowest: float
    highest: float


SEPARATE = Degrees(15, 45)
"""no angle belongs to both classes"""
OVERLAPPING = Degrees(-5, 30)
"""angles in -5..5 belong to both"""


def rotated_ones(digits: ImageSet, count: int, *, degrees: Degrees, seed: int) -> Described:
    """Images of the digit one, each turned by a random angle.

    The class is drawn with equal probability, the digit with replacement, and the angle
    uniformly: from ``degrees`` for ``anticlockwise``, from their opposites for ``clockwise``.

    Source: Raghu et al., 2021, "Teaching with Commentaries", section 3.1 and appendix B.1.
    """
    if not -180 <= degrees.lowest < degrees.highest <= 180:
        raise UsageError(
            f"the range of angles is {degrees.lowest:g}..{degrees.highest:g} degrees; allowed: "
            "a rising pair within -180..180."
        )
    ones = _ones(digits)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=generator)
    base = ones.rows(torch.randint(len(ones), (count,), generator=generator))
    share = torch.rand(count, generator=generator)
    drawn = degrees.lowest + (degrees.highest - degrees.lowest) * share
    turn = torch.where(labels == 1, drawn, -drawn)
    name = f"{digits.name}, ones turned"
    images = ImageSet(rotated(base.images, turn), labels, torch.arange(count), CLASSES, name)
    return Described(images, {"degrees": turn, "base": base.ids})


def _ones(digits: ImageSet) -> ImageSet:
    if DIGIT in digits.classes:
        rows = (digits.labels == digits.classes.index(DIGIT)).nonzero().flatten()
        if len(rows):
            return digits.rows(rows)
    raise UsageError(
        f"{digits.name} has no images of the class '{DIGIT}' to turn; classes there: "
        f"{', '.join(digits.classes)}. Take mnist or mnist5k."
    )
