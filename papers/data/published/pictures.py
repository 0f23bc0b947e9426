"""Picture files of any size as images of one size."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.decode import decode
from tutelage_cli.data.resize import Size, covering


def picture(file: Path, *, where: str) -> UInt8[Tensor, "channels H W"]:
    """One picture as it is stored, turned upright.

    It is a UsageError if the file is missing or broken; the message gives its path.
    """
    pixels = decode(file, where=f"{file} ({where})", root=Path())
    return torch.from_numpy(np.array(pixels, order="C"))


def read_pictures(
    files: Sequence[Path], size: Size, *, channels: int, where: str
) -> UInt8[Tensor, "N channels H W"]:
    """Pictures cut about their centre to the proportions asked for, and scaled."""
    if not files:
        raise UsageError(f"{where} names no picture; give a list with at least one.")
    images = torch.empty(len(files), channels, *size, dtype=torch.uint8)
    for row, file in enumerate(files):
        pixels = picture(file, where=f"picture {row + 1} of {where}")
        if len(pixels) > channels:
            raise UsageError(f"{file} is in colour; allowed: grey pictures. Convert it.")
        images[row] = covering(pixels[None], size)[0].expand(channels, -1, -1)
    return images
