"""What a published folder must hold, and its lists of names and numbers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage_cli.data.decode import decode
from tutelage_cli.data.resize import Size, covering

_HOLD_OUT = 1  # first part of a seed: keeps the streams of random numbers apart


def found(root: Path, *places: str, dataset: str, hint: str) -> Path:
    """The first of some places below a folder that exists."""
    for place in places:
        if (root / place).exists():
            return root / place
    raise UsageError(
        f"{root} holds no {' or '.join(places)}, so it is not the folder of {dataset}; {hint}."
    )


def listed_rows(file: Path, *, columns: int) -> list[list[str]]:
    """The rows of a list whose columns are divided by blanks."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read as a UTF-8 list ({error}).") from error
    rows = [line.split(maxsplit=columns - 1) for line in lines if line.strip()]
    for number, row in enumerate(rows, 1):
        if len(row) != columns:
            raise UsageError(
                f"line {number} of {file} is '{' '.join(row)}'; allowed: {columns} values "
                "divided by blanks. Unpack the list again."
            )
    if not rows:
        raise UsageError(f"{file} is empty; unpack the list again.")
    return rows


def numbers(texts: list[str], *, where: Path) -> list[int]:
    """Whole numbers as they are written."""
    try:
        values = [float(text) for text in texts]
    except ValueError as error:
        raise UsageError(f"{where} has a value that is no number ({error}).") from error
    for value in values:
        if not value.is_integer():
            raise UsageError(f"{where} has the value {value}; allowed: whole numbers.")
    return [int(value) for value in values]


def held_out_share(
    groups: Int64[Tensor, "N"], share: float, *, seed: int
) -> tuple[Int64[Tensor, "M"], Int64[Tensor, "R"]]:
    """Rows to learn from and rows to hold out, no group in both."""
    names, places = groups.unique(return_inverse=True)
    count = round(share * len(names))
    if not 0 < count < len(names):
        raise UsageError(
            f"a share of {share:g} holds {count} of {len(names)} groups out; allowed: at least "
            "one, and not all."
        )
    generator = torch.Generator().manual_seed(mixed_seed(_HOLD_OUT, seed))
    chosen = torch.zeros(len(names), dtype=torch.bool)
    chosen[torch.randperm(len(names), generator=generator)[:count]] = True
    held_out = chosen[places]
    return (~held_out).nonzero().flatten(), held_out.nonzero().flatten()


def picture(file: Path, *, where: str) -> UInt8[Tensor, "channels H W"]:
    """One picture as it is stored, turned upright."""
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
