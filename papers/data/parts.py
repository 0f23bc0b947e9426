"""A data set cut at random into parts of equal size, one of which is spoilt."""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.images import ImageSet

Spoilt = Literal["labels", "images"]


class Parts(NamedTuple):
    """N = K * size examples, part after part; part 0 is the spoilt one."""

    images: UInt8[Tensor, "N channels H W"]
    labels: Int64[Tensor, "N"]
    size: int
    """examples in a part"""


def spoilt_parts(
    data: ImageSet, examples: int, parts: int, *, spoil: Spoilt, seed: int
) -> Parts:
    """Random parts, the first with labels or images that say nothing."""
    size = examples // parts
    if not 1 <= size <= len(data) // parts:
        raise UsageError(
            f"{examples} examples in {parts} parts cannot be taken from the {len(data)} of "
            f"{data.name}; allowed: {parts}..{len(data)}."
        )
    draws = torch.Generator().manual_seed(seed)
    chosen = data.rows(torch.randperm(len(data), generator=draws)[: size * parts])
    images, labels = chosen.images, chosen.labels
    if spoil == "labels":
        labels[:size] = torch.randint(len(data.classes), (size,), generator=draws)
    else:
        pixels = images[size : 2 * size].float()
        noise = torch.randn(images[:size].shape, generator=draws)
        drawn = noise * pixels.std() + pixels.mean()
        images[:size] = drawn.round().clamp(0, 255).to(torch.uint8)
    return Parts(images, labels, size)
