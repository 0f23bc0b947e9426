"""Resizing images without changing their proportions."""

from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import UInt8
from torch import Tensor

from tutelage.errors import UsageError


class Size(NamedTuple):
    """Of an image, in pixels."""

    height: int
    width: int


class Cut(NamedTuple):
    """The part of an image that is kept, in pixels of that image."""

    top: int
    left: int
    height: int
    width: int


def centre_cut(old: Size, new: Size) -> Cut:
    """The largest part about the centre that has the proportions of another size."""
    if min(*old, *new) < 1:
        raise UsageError(
            f"{tuple(old)} cannot be resized to {tuple(new)} pixels (height, width); allowed: "
            "1 and above."
        )
    height = min(old.height, max(1, round(old.width * new.height / new.width)))
    width = min(old.width, max(1, round(old.height * new.width / new.height)))
    return Cut((old.height - height) // 2, (old.width - width) // 2, height, width)


def covering(
    images: UInt8[Tensor, "N channels H W"], size: Size
) -> UInt8[Tensor, "N channels h w"]:
    """The largest centre part with the new proportions, resized.

    Scaled bilinearly, with smoothing before pixels are left out.
    """
    old = Size(images.shape[-2], images.shape[-1])
    if old == size:
        return images.clone()
    top, left, height, width = centre_cut(old, size)
    part = images[..., top : top + height, left : left + width]
    scaled = F.interpolate(
        part.float(), tuple(size), mode="bilinear", align_corners=False, antialias=True
    )
    return scaled.round().clamp(0, 255).to(images.dtype)
