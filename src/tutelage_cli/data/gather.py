"""The images of a source as one tensor, optionally without unreadable ones."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from tutelage_cli.data.decode import BrokenImageError, read_picture, stack
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.resize import Size, covering

_LISTED = 20
"""images named in a note"""


class Gathered(NamedTuple):
    """M of N pictures."""

    images: UInt8[Tensor, "M C H W"]
    rows: Int64[Tensor, "M"]
    """which of the N they are, rising"""
    notes: tuple[str, ...]
    """what was left out and why, and of which images the first frame alone is read, a sentence
    each"""


def gather(
    pictures: Iterable[tuple[str, Any]], count: int, reading: Reading, *, where: str, root: Path
) -> Gathered:
    """Decode images, resize them where ``Reading`` has a size, and stack them.

    It is a UsageError if one cannot be read and is not to be skipped, two differ in size, or
    none is left.
    """
    rows: list[int] = []
    broken: list[str] = []
    moving: list[str] = []

    def readable() -> Iterator[tuple[str, np.ndarray]]:
        for row, (place, stored) in enumerate(pictures):
            try:
                picture = read_picture(stored, where=place, root=root)
            except BrokenImageError as error:
                message = str(error).removesuffix(".")
                if reading.broken_images != "skip":
                    raise BrokenImageError(
                        f"{message}, or leave such images out: --broken-images skip."
                    ) from error
                known = message.removesuffix("; replace or remove it")
                broken.append(known.replace(" cannot be read as an image", ""))
                continue
            rows.append(row)
            if picture.moving:
                moving.append(place)
            yield place, _sized(picture.pixels, reading.image_size)

    images = stack(readable(), count, where=where)
    notes = _notes(broken, where) + _frame_notes(moving, where)
    return Gathered(images, torch.tensor(rows, dtype=torch.int64), notes)


def _sized(pixels: np.ndarray, side: int | None) -> np.ndarray:
    if side is None:
        return pixels
    image = torch.from_numpy(np.array(pixels, order="C"))  # a decoded picture is read-only
    return covering(image[None], Size(side, side))[0].numpy()


def _notes(broken: list[str], where: str) -> tuple[str, ...]:
    if not broken:
        return ()
    noun = (
        "image that cannot be read is" if len(broken) == 1 else "images that cannot be read are"
    )
    return (f"{len(broken)} {noun} left out of {where}: {_listed(broken)}.",)


def _frame_notes(moving: list[str], where: str) -> tuple[str, ...]:
    if not moving:
        return ()
    noun = "image has" if len(moving) == 1 else "images have"
    message = f"{len(moving)} {noun} several frames, of which the first is read, in {where}"
    return (f"{message}: {_listed(moving)}.",)


def _listed(lines: list[str]) -> str:
    more = len(lines) - _LISTED
    return "; ".join(lines[:_LISTED]) + (f"; and {more} more" if more > 0 else "")
