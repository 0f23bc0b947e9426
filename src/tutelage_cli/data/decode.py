"""From stored pictures to one tensor: upright, grey or RGB, all of one size."""

import io
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import joblib
import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from tutelage.errors import MissingExtraError, UsageError
from tutelage_cli.data.mapped import ArrayWriter, Rows
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.resize import Size, covering
from tutelage_cli.runner.workers import started_workers

try:
    from PIL import Image, ImageOps, __version__
except ImportError as error:
    raise MissingExtraError("pillow", "train") from error

PILLOW = f"pillow {__version__}"
"""what decodes: another release may turn a JPEG file into other pixels"""
_MOVING = ("GIF", "WEBP", "PNG", "TIFF", "AVIF")
"""formats whose frames are a film, or pages; others have a preview beside the picture"""
_GREY = ("1", "L", "LA", "La")
_LISTED = 20
"""images named in a note"""
SEVERAL = 20_000
"""pictures; so many are read by a process for each core, which take seconds to start"""
AT_ONCE = 100
"""pictures that a process reads at a time"""


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


def stack(pictures: Iterable[tuple[str, np.ndarray]], count: int, *, where: str) -> Rows:
    """Pictures of one size as one array; all become RGB where any is."""
    images: ArrayWriter | None = None
    first = ""
    for place, pixels in pictures:
        if images is None:
            images, first = ArrayWriter(count, pixels.shape, np.uint8), place
        if pixels.shape[1:] != images.row_shape[1:]:
            raise UsageError(
                f"images differ in size: {first} is {_size(images.row_shape)} and {place} is "
                f"{_size(pixels.shape)} (width x height); bring all images to one size, or "
                "have them cut to a square of so many pixels a side: --image-size 64."
            )
        if len(pixels) > images.row_shape[0]:
            images = images.widened(pixels.shape)
        images.append(pixels[None])
    if images is None:
        raise UsageError(f"{where} holds no images; give a source with at least one.")
    return images.finish()


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


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[-1]}x{shape[-2]}"


class Gathered(NamedTuple):
    """M of N pictures."""

    images: Rows
    """uint8 [M, C, H, W]"""
    rows: Int64[Tensor, "M"]
    """which of the N they are, rising"""
    notes: tuple[str, ...]
    """what was left out and why, and of which images the first frame alone is read, a sentence
    each"""


def gather(
    pictures: Iterable[tuple[str, Any]], count: int, reading: Reading, *, where: str, root: Path
) -> Gathered:
    """Decode images, resize them where ``Reading`` has a size, and stack them."""
    rows: list[int] = []
    broken: list[str] = []
    moving: list[str] = []

    def readable() -> Iterator[tuple[str, np.ndarray]]:
        read = _read_all(pictures, count, reading.image_size, root)
        for row, (place, picture) in enumerate(read):
            if isinstance(picture, BrokenImageError):
                message = str(picture).removesuffix(".")
                if reading.broken_images != "skip":
                    raise BrokenImageError(
                        f"{message}, or leave such images out: --broken-images skip."
                    ) from picture
                known = message.removesuffix("; replace or remove it")
                broken.append(known.replace(" cannot be read as an image", ""))
                continue
            if isinstance(picture, UsageError):
                raise picture
            rows.append(row)
            if picture.moving:
                moving.append(place)
            yield place, picture.pixels

    images = stack(readable(), count, where=where)
    notes = _broken_notes(broken, where) + _frame_notes(moving, where)
    return Gathered(images, torch.tensor(rows, dtype=torch.int64), notes)


Read: TypeAlias = tuple[str, Picture | UsageError]
"""where a picture is, and its pixels or why there are none"""


def _read_all(
    pictures: Iterable[tuple[str, Any]], count: int, side: int | None, root: Path
) -> Iterator[Read]:
    """Read pictures in order, many of them in several processes."""
    cores = joblib.cpu_count()
    if count < SEVERAL or cores == 1:
        for one in pictures:
            yield from _read_some([one], side, root)
        return
    rest = iter(pictures)
    parts = iter(lambda: list(islice(rest, AT_ONCE)), [])
    with started_workers(cores, return_as="generator") as parallel:
        read = parallel(joblib.delayed(_read_some)(part, side, root) for part in parts)
        try:
            yield from chain.from_iterable(read)
        finally:  # joblib warns of what is left where a picture is refused
            with warnings.catch_warnings(action="ignore"):
                read.close()


def _read_some(pictures: Sequence[tuple[str, Any]], side: int | None, root: Path) -> list[Read]:
    read = list[Read]()
    for place, stored in pictures:
        try:
            picture = read_picture(stored, where=place, root=root)
            read.append((place, picture._replace(pixels=_sized(picture.pixels, side))))
        except UsageError as error:
            read.append((place, error))
    return read


def _sized(pixels: np.ndarray, side: int | None) -> np.ndarray:
    if side is None:
        return pixels
    image = torch.from_numpy(np.array(pixels, order="C"))  # a decoded picture is read-only
    return covering(image[None], Size(side, side))[0].numpy()


def _broken_notes(broken: list[str], where: str) -> tuple[str, ...]:
    if not broken:
        return ()
    noun = (
        "image that cannot be read is" if len(broken) == 1 else "images that cannot be read are"
    )
    return (f"{len(broken)} {noun} left out of {where}: {_first_lines(broken)}.",)


def _frame_notes(moving: list[str], where: str) -> tuple[str, ...]:
    if not moving:
        return ()
    noun = "image has" if len(moving) == 1 else "images have"
    message = f"{len(moving)} {noun} several frames, of which the first is read, in {where}"
    return (f"{message}: {_first_lines(moving)}.",)


def _first_lines(lines: list[str]) -> str:
    more = len(lines) - _LISTED
    return "; ".join(lines[:_LISTED]) + (f"; and {more} more" if more > 0 else "")
