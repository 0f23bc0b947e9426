"""Geometric operations on batches: affine maps, flips and cutout, one for each image."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float32, Float64, Int64, UInt8
from torch import Tensor

from tutelage.augment.casts import as_bytes

Images = UInt8[Tensor, "B ch H W"]
Which = Int64[np.ndarray, "B"]
Values = Float64[np.ndarray, "B"]
Maps = Float64[np.ndarray, "B 2 3"]


MOVING = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
"""operations that take every pixel from somewhere else"""


def maps_of(which: Which, value: Values, height: int, width: int) -> Maps:
    """Affine maps from the pixels of an image to their sources.

    ``shear_x`` takes a pixel from further right, by ``value`` times its distance from the
    upper edge; ``shear_y`` from further down, by that from the left edge; ``translate``
    moves by ``value`` pixels to the right or down; ``rotate`` turns by ``value`` degrees
    counter-clockwise about the middle.
    """
    shear_x, shear_y, move_x, move_y, angle = (
        np.where(which == place, value, 0.0) for place in range(1, len(MOVING) + 1)
    )
    angle = angle * (math.pi / 180)
    maps = np.empty((len(value), 2, 3))
    maps[:, 0, 0] = maps[:, 1, 1] = np.cos(angle)
    maps[:, 0, 1] = shear_x - np.sin(angle)
    maps[:, 1, 0] = shear_y + np.sin(angle)
    maps[:, 0, 2] = shear_x * (height / 2) - move_x
    maps[:, 1, 2] = shear_y * (width / 2) - move_y
    return maps


def sampled(images: Images, maps: Maps) -> Images:
    """Resample images by affine maps, nearest neighbour, black outside the image.

    As by ``affine`` and ``rotate`` of torchvision in mode ``nearest``, where a source lies
    halfway between two pixels, too: numbers are rounded in the same order. They are sums of
    rounded products, not a matrix product, so that they depend neither on the batch nor on
    autocast; where torch's matrix products round less, its choice may be the other pixel.
    """
    grid = places(maps, *images.shape[2:], device=images.device)
    with torch.autocast(images.device.type, enabled=False):
        found = F.grid_sample(images.float(), grid, mode="nearest", align_corners=False)
    return as_bytes(found)


def places(
    maps: Maps, height: int, width: int, *, device: torch.device
) -> Float32[Tensor, "B H W 2"]:
    """Sampling grid of affine maps, as ``grid_sample`` takes it."""
    half = np.array([[width / 2], [height / 2]], dtype=np.float32)
    scaled = maps.astype(np.float32) / half
    x = np.arange(width, dtype=np.float32) - np.float32((width - 1) / 2)
    y = np.arange(height, dtype=np.float32) - np.float32((height - 1) / 2)
    across = scaled[:, None, :, 0] * x[:, None]
    down = scaled[:, None, :, 1] * y[:, None]
    # x and y added as one complex number, which is done many at a time
    parts = across, down, np.ascontiguousarray(scaled[:, None, :, 2])
    sides = (torch.from_numpy(part).to(device) for part in parts)
    right, below, moved = map(torch.view_as_complex, sides)
    return torch.view_as_real((right[:, None] + below[:, :, None]).add_(moved[:, :, None]))


def flip_lr(images: Images, _: Values) -> Images:
    """Flip left to right."""
    return images.flip(3)


def flip_ud(images: Images, _: Values) -> Images:
    """Flip top to bottom."""
    return images.flip(2)


def cut_out(
    images: Tensor, side: Values, spot: Float64[np.ndarray, "B 2"], *, colour: float = 0.0
) -> Tensor:
    """Paint a square over each image.

    Source: DeVries and Taylor 2017, Improved Regularization of Convolutional Neural Networks
    with Cutout.
    """
    first = np.floor(spot * images.shape[2:]) - np.floor(side / 2)[:, None]
    after = first + side[:, None]
    rows, columns = (
        (np.arange(n) >= first[:, k, None]) & (np.arange(n) < after[:, k, None])
        for k, n in enumerate(images.shape[2:])
    )
    square = torch.from_numpy(rows[:, None, :, None] & columns[:, None, None])
    return images.masked_fill(square.to(images.device), colour)
