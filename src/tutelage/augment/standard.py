"""Standard augmentation of small images: random crop, flip and cutout."""

import numpy as np
import torch
from jaxtyping import Bool, Int64, Shaped
from torch import Tensor

from tutelage.augment.casts import require_tensor
from tutelage.augment.draws import ExampleRandom
from tutelage.augment.geometry import cut_out
from tutelage.errors import UsageError, require_known

MODES = ("reflect", "zeros")
"""what is beyond the edge: the image mirrored about its edge pixels, or black"""
SHIFT, MIRROR, SPOT = 201, 202, 203
"""streams of draws by example"""


def random_crop(
    images: Shaped[Tensor, "B C H W"],
    *,
    seed: int,
    ids: Shaped[Tensor, "B"] | None = None,
    pad: int = 4,
    mode: str = "reflect",
) -> Shaped[Tensor, "B C H W"]:
    """Crop every image at random after padding by ``pad`` pixels.

    An unknown mode, and a padding that is negative or too wide to reflect, is a UsageError.

    Args:
        images: Of any type.
        seed: Of the shifts; the same seed gives the same images.
        ids: As of :func:`crop_and_flip`.
        pad: The padding on every side.
        mode: ``reflect`` or ``zeros``.

    Returns:
        Images of the same size and type.
    """
    return crop_and_flip(images, seed=seed, ids=ids, pad=pad, mode=mode, flip=False)


def random_flip(
    images: Shaped[Tensor, "B C H W"], *, seed: int, ids: Shaped[Tensor, "B"] | None = None
) -> Shaped[Tensor, "B C H W"]:
    """Flip every image left to right with probability 1/2.

    Args:
        images: Of any type.
        seed: Of the choice; the same seed gives the same images.
        ids: As of :func:`crop_and_flip`.

    Returns:
        Images of the same size and type.
    """
    return crop_and_flip(images, seed=seed, ids=ids, pad=0, mode="zeros", flip=True)


def crop_and_flip(
    images: Shaped[Tensor, "B C H W"],
    *,
    seed: int,
    ids: Shaped[Tensor, "B"] | None = None,
    pad: int = 4,
    mode: str = "reflect",
    flip: bool = True,
) -> Shaped[Tensor, "B C H W"]:
    """``random_crop``, then ``random_flip`` if ``flip``.

    One gather over the whole batch; the random numbers are drawn on the CPU, so that they do
    not depend on the device. An unknown mode, and a padding that is negative or too wide to
    reflect, is a UsageError.

    Args:
        images: Of any type.
        seed: Of the shifts and the mirroring; the same seed gives the same images.
        ids: Of the examples: what becomes of each depends on the seed and its id alone. None:
            on its place in this batch and the size of that.
        pad: The padding on every side.
        mode: ``reflect`` or ``zeros``.
        flip: Whether to mirror each image with probability 1/2.

    Returns:
        Images of the same size and type.
    """
    require_tensor(images)
    B, _, H, W = images.shape
    _check(pad, mode, min(H, W))
    shift, mirrored = _drawn(B, pad, seed, ids)
    mirrored = mirrored & flip
    across = torch.arange(W).expand(B, W)
    rows = torch.arange(H) + shift[0]
    columns = torch.where(mirrored, across.flip(1), across) + shift[1]
    return _gathered(images, rows.to(images.device), columns.to(images.device), mode)


def cutout(
    images: Shaped[Tensor, "B C H W"],
    *,
    seed: int,
    ids: Shaped[Tensor, "B"] | None = None,
    side: int = 16,
    colour: float = 0.0,
) -> Shaped[Tensor, "B C H W"]:
    """Paint a square at a random position over every image; part of it may lie outside.

    Source: DeVries and Taylor 2017, Improved Regularization of Convolutional Neural Networks
    with Cutout.

    Args:
        images: Of any type; mostly normalised already, with 0 the mean.
        seed: With an example's id it decides where.
        ids: Of the examples; their places in the batch if None.
        side: Of the square, pixels.
        colour: What it is painted with.

    Returns:
        Images of the same size and type.

    Raises:
        UsageError: If ``side`` is below 0.
    """
    require_tensor(images)
    if side < 0:
        raise UsageError(f"side is {side}; allowed: 0 and above.")
    spot = ExampleRandom(seed, ids, len(images)).uniform(SPOT, 2)
    return cut_out(images, np.full(len(images), float(side)), spot, colour=colour)


def _drawn(
    count: int, pad: int, seed: int, ids: Tensor | None
) -> tuple[Int64[Tensor, "2 B 1"], Bool[Tensor, "B 1"]]:
    # shifts down and across, and whether mirrored
    if ids is None:
        generator = torch.Generator().manual_seed(seed)
        shift = torch.randint(-pad, pad + 1, (2, count, 1), generator=generator)
        return shift, torch.randint(0, 2, (count, 1), generator=generator).bool()
    draws = ExampleRandom(seed, ids, count)
    shift = torch.from_numpy(draws.whole(SHIFT, 2, 2 * pad + 1) - pad).T.unsqueeze(2)
    return shift, torch.from_numpy(draws.uniform(MIRROR, 1) < 0.5)


def _gathered(
    images: Shaped[Tensor, "B C H W"],
    rows: Int64[Tensor, "B H"],
    columns: Int64[Tensor, "B W"],
    mode: str,
) -> Shaped[Tensor, "B C H W"]:
    B, C, H, W = images.shape
    row, column = _reflected(rows, H), _reflected(columns, W)
    place = (row[:, :, None] * W + column[:, None, :]).flatten(1)
    flat = images.flatten(2).gather(2, place[:, None].expand(B, C, H * W))
    cropped = flat.view(B, C, H, W)
    if mode == "zeros":
        inside = _inside(rows, H)[:, :, None] & _inside(columns, W)[:, None, :]
        return cropped.masked_fill(~inside[:, None], 0)
    return cropped


def _reflected(places: Int64[Tensor, "B L"], length: int) -> Int64[Tensor, "B L"]:
    # Mirrored once about the first and once about the last place; clamped for wide zeros.
    return (length - 1 - (length - 1 - places.abs()).abs()).clamp(min=0)


def _inside(places: Int64[Tensor, "B L"], length: int) -> Bool[Tensor, "B L"]:
    return (places >= 0) & (places < length)


def _check(pad: int, mode: str, shortest: int) -> None:
    require_known("unknown padding", mode, MODES)
    highest = shortest - 1 if mode == "reflect" else None
    if pad < 0 or (highest is not None and pad > highest):
        allowed = "0 and above" if highest is None else f"0..{highest} (the image less one)"
        raise UsageError(f"pad is {pad}; allowed with mode '{mode}': {allowed}.")
