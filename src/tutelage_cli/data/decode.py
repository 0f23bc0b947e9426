"""From stored pictures to bytes: upright, grey or RGB, all of one size."""

import io
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from tutelage.errors import MissingExtraError, UsageError

try:
    from PIL import Image, ImageOps, __version__
except ImportError as error:
    raise MissingExtraError("pillow", "train") from error

PILLOW = f"pillow {__version__}"
"""what decodes: another release may turn a JPEG file into other pixels"""
_MOVING = ("GIF", "WEBP", "PNG", "TIFF", "AVIF")
"""formats whose frames are a film, or pages; others have a preview beside the picture"""
_GREY = ("1", "L", "LA", "La")


class BrokenImageError(UsageError):
    """A picture that cannot be read, and may be left out on request."""


class Picture(NamedTuple):
    """A decoded picture."""

    pixels: UInt8[np.ndarray, "C H W"]
    moving: bool
    """whether these are the first of several frames"""


def decode(stored: Any, *, where: str, root: Path) -> UInt8[np.ndarray, "C H W"]:
    """The pixels of a picture; see ``read_picture``."""
    return read_picture(stored, where=where, root=root).pixels


def read_picture(stored: Any, *, where: str, root: Path) -> Picture:
    """The picture as pixels, turned upright as its EXIF orientation says.

    One channel for black-and-white and grey pictures, three (RGB) for all others; a
    transparency channel is dropped.
    """
    try:
        picture = _opened(_file_bytes(stored, root, where))
    except (OSError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        # Pillow ends some messages with "<_io.BytesIO object at ...>".
        reason = getattr(error, "strerror", None) or str(error).partition("<")[0].strip()
        raise BrokenImageError(
            f"{where} cannot be read as an image ({reason}); replace or remove it."
        ) from error
    if picture.mode.startswith(("I", "F")):
        raise UsageError(
            f"{where} has over 8 bits a channel (mode {picture.mode}); allowed: 8. Convert it, "
            "for instance with Pillow: scale the values to 0..255 and save them as mode 'L'."
        )
    if picture.mode in _GREY:
        pixels = np.asarray(picture.convert("L"))[None]
    else:
        pixels = np.asarray(picture.convert("RGB")).transpose(2, 0, 1)
    return Picture(pixels, _is_moving(picture))


def _is_moving(picture: Image.Image) -> bool:
    # after its pixels are read: a GIF looks for the next frame, which may be damaged
    with suppress(OSError, SyntaxError, EOFError, ValueError):
        return picture.format in _MOVING and bool(getattr(picture, "is_animated", False))
    return False


def stack(pictures: Iterable[tuple[str, np.ndarray]], count: int, *, where: str) -> Tensor:
    """Pictures of one size as one tensor; all become RGB where any is."""
    images: np.ndarray | None = None
    first, row = "", 0
    for row, (place, pixels) in enumerate(pictures):
        if images is None:
            images, first = np.empty((count, *pixels.shape), np.uint8), place
        if pixels.shape[1:] != images.shape[2:]:
            raise UsageError(
                f"images differ in size: {first} is {_size(images)} and {place} is "
                f"{_size(pixels)} (width x height); bring all images to one size, or have "
                "them cut to a square of so many pixels a side: --image-size 64."
            )
        if len(pixels) > images.shape[1]:
            images = np.repeat(images, len(pixels), axis=1)
        images[row] = pixels
    if images is None:
        raise UsageError(f"{where} holds no images; give a source with at least one.")
    return torch.from_numpy(images[: row + 1])


def _file_bytes(stored: Any, root: Path, where: str) -> bytes:
    if isinstance(stored, Mapping):
        inner = stored.get("bytes")
        stored = stored.get("path") if inner is None else inner
    if isinstance(stored, bytes):
        return stored
    if isinstance(stored, str | Path):
        return (root / stored).read_bytes()
    raise UsageError(
        f"{where} holds {type(stored).__name__}, not an image file; name the column of images "
        "with --image-column, or remove this row."
    )


def _opened(data: bytes) -> Image.Image:
    # Pillow tries formats one by one and WebP last: naming it halves the time.
    formats = ("WEBP",) if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None
    picture = Image.open(io.BytesIO(data), formats=formats)
    ImageOps.exif_transpose(picture, in_place=True)
    picture.load()
    return picture


def _size(pixels: np.ndarray) -> str:
    return f"{pixels.shape[-1]}x{pixels.shape[-2]}"
