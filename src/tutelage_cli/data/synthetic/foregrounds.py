"""Objects with masks, to be put on backgrounds: ink, discs, and their positions."""

import torch
from jaxtyping import UInt8
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.described import Described
from tutelage_cli.data.images import ImageSet

MASK = "mask"
"""the fact that says how much of each pixel is the object: uint8 [N, H, W], 255 for all"""


def ink(digits: ImageSet) -> Described:
    """White digits, covering as much of a pixel as there is ink on it."""
    if digits.images.shape[1] != 1:
        raise UsageError(
            f"{digits.name} has {digits.images.shape[1]} channels; allowed: 1, grey values."
        )
    white = torch.full_like(digits.images, 255).expand(-1, 3, -1, -1).contiguous()
    images = ImageSet(white, digits.labels, digits.ids, digits.classes, digits.name)
    return Described(images, {MASK: digits.images[:, 0]})


def discs(objects: ImageSet) -> Described:
    """The round part about the centre of every image, for images that have no masks."""
    height, width = objects.images.shape[-2:]
    row = (torch.arange(height) - (height - 1) / 2)[:, None]
    column = (torch.arange(width) - (width - 1) / 2)[None, :]
    inside = min(height, width) / 2 + 0.5 - (row**2 + column**2).sqrt()
    disc = (inside.clamp(0, 1) * 255).round().to(torch.uint8)
    return Described(objects, {MASK: disc.expand(len(objects), -1, -1)})


def scattered(foregrounds: Described, *, side: int, seed: int) -> Described:
    """Every object at a random place of a larger, empty image."""
    old = foregrounds.images
    height, width = old.images.shape[-2:]
    if max(height, width) > side:
        raise UsageError(
            f"{old.name} has objects of {width}x{height} pixels (width x height), which do not "
            f"fit into {side}x{side}; take a larger side, or smaller objects."
        )
    generator = torch.Generator().manual_seed(seed)
    top, left = (
        torch.randint(side - extent + 1, (len(old),), generator=generator)
        for extent in (height, width)
    )
    pixels = _moved(old.images, side, top, left)
    mask = _moved(foregrounds.facts[MASK][:, None], side, top, left)[:, 0]
    box = torch.stack([top, left, top + height, left + width], 1)
    images = ImageSet(pixels, old.labels, old.ids, old.classes, old.name)
    facts = {**foregrounds.facts, MASK: mask, "box": box, "base": old.ids}
    return Described(images, facts)


def _moved(
    images: UInt8[Tensor, "N channels h w"], side: int, top: Tensor, left: Tensor
) -> Tensor:
    count, channels, height, width = images.shape
    canvas = torch.zeros(count, side, side, channels, dtype=torch.uint8)
    rows = top[:, None, None] + torch.arange(height)[None, :, None]
    columns = left[:, None, None] + torch.arange(width)[None, None, :]
    canvas[torch.arange(count)[:, None, None], rows, columns] = images.permute(0, 2, 3, 1)
    return canvas.permute(0, 3, 1, 2).contiguous()
