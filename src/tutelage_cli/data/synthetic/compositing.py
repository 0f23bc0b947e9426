"""Objects with masks, put on backgrounds whose category depends on the object's class."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.images import Described, ImageSet
from tutelage_cli.data.resize import Size, covering

MASK = "mask"
"""the fact that says how much of each pixel is the object: uint8 [N, H, W], 255 for all"""
_PUT_AT_ONCE = 256
"""images; bounds the memory"""


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


def drawn_mapping(classes: int, categories: int, *, seed: int) -> Int64[Tensor, "C"]:
    """A background category for every class, no two alike.

    Source: Koh et al., 2020, "Concept Bottleneck Models", for birds on places. Their generator
        draws in the same way, but shuffles other things first: no seed gives its very mapping.
    """
    if not 1 <= classes <= categories:
        raise UsageError(
            f"{classes} classes cannot each have one of {categories} background categories; "
            f"allowed: 1..{categories} classes."
        )
    # The old generator draws the same in every release of numpy.
    return torch.from_numpy(
        np.random.RandomState(seed).choice(categories, classes, replace=False)
    ).long()


def rolled(mapping: Int64[Tensor, "C"]) -> Int64[Tensor, "C"]:
    """The mapping moved on by one: a class gets what the class before it had."""
    return mapping.roll(1)


def on_backgrounds(
    foregrounds: Described, backgrounds: ImageSet, mapping: Int64[Tensor, "C"], *, seed: int
) -> Described:
    """Every object on a random background of the category that its class is mapped to.

    ``pixel = a * object + (1 - a) * background``, a the object's mask in 0..1; backgrounds are
    resized to the objects' size about their centre.

    Source: Raghu et al., 2021, "Teaching with Commentaries", section 5.2; Koh et al., 2020.
    """
    _refuse_unfit(foregrounds.images, backgrounds, mapping)
    wanted = mapping[foregrounds.images.labels]
    rows = _one_of_each(backgrounds, wanted, seed)
    old = foregrounds.images
    size = Size(old.images.shape[-2], old.images.shape[-1])
    pixels = torch.empty_like(old.images)
    for span in torch.arange(len(old)).split(_PUT_AT_ONCE):
        behind = covering(backgrounds.images[rows[span]], size)
        pixels[span] = composite(old.images[span], foregrounds.facts[MASK][span], behind)
    name = f"{old.name} on {backgrounds.name}"
    images = ImageSet(pixels, old.labels, old.ids, old.classes, name)
    drawn: Mapping[str, Tensor] = {"background": wanted, "background_id": backgrounds.ids[rows]}
    return Described(images, {**foregrounds.facts, **drawn})


def composite(
    front: UInt8[Tensor, "N channels H W"],
    mask: UInt8[Tensor, "N H W"],
    behind: UInt8[Tensor, "N channels H W"],
) -> UInt8[Tensor, "N channels H W"]:
    """``(mask * front + (255 - mask) * behind) / 255``, rounded."""
    share = mask[:, None].int()
    total = share * front.int() + (255 - share) * behind.int()
    return ((total + 127) // 255).to(torch.uint8)


def _one_of_each(backgrounds: ImageSet, wanted: Tensor, seed: int) -> Tensor:
    # A random row with each wanted label: the rows in order of label, and a place among them.
    counts = torch.bincount(backgrounds.labels, minlength=len(backgrounds.classes))
    empty = wanted[counts[wanted] == 0]
    if len(empty):
        raise UsageError(
            f"{backgrounds.name} has no image of category "
            f"'{backgrounds.classes[int(empty[0])]}'; give one of every category that a class "
            "is mapped to."
        )
    order, starts = backgrounds.labels.argsort(stable=True), counts.cumsum(0) - counts
    generator = torch.Generator().manual_seed(seed)
    share = torch.rand(len(wanted), generator=generator, dtype=torch.float64)
    return order[starts[wanted] + (share * counts[wanted]).long()]


def _refuse_unfit(objects: ImageSet, backgrounds: ImageSet, mapping: Tensor) -> None:
    for images in (objects, backgrounds):
        if images.images.shape[1] != 3:
            raise UsageError(
                f"{images.name} has {images.images.shape[1]} channels; allowed: 3, RGB."
            )
    categories = len(backgrounds.classes)
    if len(mapping) != len(objects.classes) or not bool(
        ((mapping >= 0) & (mapping < categories)).all()
    ):
        raise UsageError(
            f"the mapping {mapping.tolist()} does not give each of the {len(objects.classes)} "
            f"classes of {objects.name} a category in 0..{categories - 1}; draw one with "
            "drawn_mapping."
        )
