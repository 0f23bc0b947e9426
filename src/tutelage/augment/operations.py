"""Application of a different operation to every image of a batch, grouped by operation."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Float64, Int64, Shaped
from torch import Tensor

from tutelage.augment import colour, geometry
from tutelage.augment.casts import as_bytes, require_tensor
from tutelage.errors import UsageError

COLOUR: dict[str, Callable[[Tensor, np.ndarray], Tensor]] = {
    "auto_contrast": colour.auto_contrast,
    "equalize": colour.equalize,
    "solarize": colour.solarize,
    "color": colour.color,
    "posterize": colour.posterize,
    "contrast": colour.contrast,
    "brightness": colour.brightness,
    "sharpness": colour.sharpness,
    "blur": colour.blur,
    "invert": colour.invert,
    "flip_lr": geometry.flip_lr,
    "flip_ud": geometry.flip_ud,
}
"""operations that act on images and values alone"""
IDENTITY, CUTOUT = "identity", "cutout"
OPERATIONS = (IDENTITY, *geometry.MOVING, *COLOUR, CUTOUT)
"""all operations there are, by name"""
PLACE = {name: place for place, name in enumerate(OPERATIONS)}
_ENDS = np.arange(1, len(OPERATIONS))
_ENDS = np.concatenate([_ENDS[:1], _ENDS[len(geometry.MOVING) :]])
CHANNELS = (1, 3)
PIXELS = 2**16
"""changed at a time on a CPU"""
STEP = 1 / 255 / 16
"""how far outside of 0..1 an image may lie through rounding"""


def apply_operations(
    images: Shaped[Tensor, "B ch H W"],
    operation: Int64[np.ndarray, "B"],
    value: Float64[np.ndarray, "B"],
    spot: Float64[np.ndarray, "B 2"],
) -> Shaped[Tensor, "B ch H W"]:
    """Apply one operation to each image, each with a strength of its own.

    All images of an operation are changed at once; those that are moved, turned or sheared by
    one sampling. Operations are defined on bytes: images of real numbers in 0..1 are
    rounded to 255ths first, unless the operation is ``identity``.

    Args:
        images: uint8, or real numbers in 0..1; of one channel or three.
        operation: Places in ``OPERATIONS``.
        value: In the operation's own unit: pixels (``translate``, ``cutout``), pixels per
            pixel (``shear``), degrees, factor, bits, threshold in 0..256; ignored by others.
        spot: Where ``cutout`` cuts, in parts of height and width, in [0, 1).

    Returns:
        Images of the same shape, type and device.

    Note: raises ``UsageError`` for other images.
    """
    require_images(images)
    return from_bytes(applied(to_bytes(images), operation, value, spot), images, operation)


def applied(
    images: Tensor, operation: np.ndarray, value: np.ndarray, spot: np.ndarray
) -> Tensor:
    """Apply one operation to each uint8 image."""
    if not images.numel() or not operation.any():
        return images
    operation = np.where((operation == PLACE["solarize"]) & (value > 255), 0, operation)
    # side by side with their like, then back
    order = operation.argsort(kind="stable")
    operation, value, spot = operation[order], value[order], spot[order]
    rows = torch.from_numpy(order).to(images.device)
    grouped = images.index_select(0, rows)
    ends = np.searchsorted(operation, _ENDS).tolist()
    for moved in _pieces(images, ends[0], ends[1]):
        maps = geometry.maps_of(operation[moved], value[moved], *images.shape[2:])
        grouped[moved] = geometry.sampled(grouped[moved], maps)
    for change, start, stop in zip(COLOUR.values(), ends[1:], ends[2:], strict=False):
        for like in _pieces(images, start, stop):
            grouped[like] = change(grouped[like], value[like])
    if ends[-1] < len(operation):
        cut = slice(ends[-1], None)
        grouped[cut] = geometry.cut_out(grouped[cut], value[cut], spot[cut])
    return grouped.index_select(0, torch.from_numpy(order.argsort()).to(images.device))


def _pieces(images: Tensor, start: int, stop: int) -> Iterator[slice]:
    # on a CPU what is made on the way of many large images costs more than calls do
    at_once = len(images)
    if images.device.type == "cpu":
        at_once = max(1, PIXELS // (images.shape[2] * images.shape[3]))
    for first in range(start, stop, at_once):
        yield slice(first, min(first + at_once, stop))


def require_images(images: Tensor) -> None:
    """Check that a tensor is a batch of images."""
    require_tensor(images)
    if images.ndim != 4 or images.shape[1] not in CHANNELS:
        raise UsageError(
            f"augmentation got images of shape {list(images.shape)}; allowed: [B, channels, "
            f"height, width] with {' or '.join(map(str, CHANNELS))} channels. A single image "
            "becomes a batch by image.unsqueeze(0)."
        )


def to_bytes(images: Tensor) -> Tensor:
    """Images as bytes."""
    if images.dtype == torch.uint8:
        return images.contiguous()
    if not images.is_floating_point():
        raise UsageError(
            f"augmentation got images of type {images.dtype}; allowed: torch.uint8, or real "
            "numbers in 0..1."
        )
    wide = images.detach().float()
    inside = (wide >= -STEP) & (wide <= 1 + STEP)  # not where it is not a number
    if not inside.all():
        raise UsageError(
            f"augmentation got values from {float(wide.min()):.4g} to {float(wide.max()):.4g}; "
            "allowed: 0..1, or uint8 in 0..255. Normalise after augmenting, or give mean and "
            "std where they can be given."
        )
    return as_bytes(wide.mul(255).round_()).contiguous()


def from_bytes(changed: Tensor, images: Tensor, operation: np.ndarray) -> Tensor:
    """Convert bytes to the input's type; unchanged images keep their exact values."""
    if images.dtype == torch.uint8:
        return changed
    touched = torch.from_numpy(operation.reshape(len(images), operation[:1].size).any(1)).to(
        images.device
    )
    real = changed.float().div_(255).to(images.dtype)
    return torch.where(touched.view(-1, 1, 1, 1), real, images)
