"""Drawings of a job, besides its numbers: images, a grid, points; as plain values.

They are stored in the job's file and in the result, so keep them small.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

LONGEST = 64  # pixels beyond which an image is reduced
DIGITS = 4  # significant digits of stored numbers

Drawing = Mapping[str, Any]
"""plain values for JSON; ``kind`` is that of the function of ``figure.DRAW`` that draws them"""


def image_rows(
    rows: Mapping[str, UInt8[Tensor, "N ch H W"]], captions: Sequence[str]
) -> Drawing:
    """Rows of images, such as originals above masks, with one column for each example."""
    if lengths := {name: len(row) for name, row in rows.items() if len(row) != len(captions)}:
        raise ValueError(f"rows of {lengths} images for {len(captions)} captions.")
    height, width = next(iter(rows.values())).shape[-2:]
    return {
        "kind": "images",
        "rows": {name: [_png(image) for image in row] for name, row in rows.items()},
        "captions": list(captions),
        "tall": height / width,
    }


def apply_masks(
    images: UInt8[Tensor, "N ch H W"], masks: Float[Tensor, "N 1 H W"]
) -> UInt8[Tensor, "N ch H W"]:
    """Images multiplied by their masks."""
    return (images * masks.cpu().clamp(0, 1)).to(images.dtype)


def grid(
    names: Sequence[str],
    values: Float[Tensor, "C C"],
    *,
    label: str,
    rows: str = "",
    columns: str = "",
) -> Drawing:
    """A value for each pair of names, for a heat map."""
    if values.shape != (len(names), len(names)):
        raise ValueError(f"values of shape {tuple(values.shape)} for {len(names)} names.")
    return {
        "kind": "grid",
        "names": list(names),
        "values": [_rounded(row) for row in values.tolist()],
        "label": label,
        "rows": rows,
        "columns": columns,
    }


def scatter(
    x: Sequence[float],
    y: Sequence[float],
    labels: tuple[str, str],
    *,
    colours: Sequence[float] | Sequence[str],
    colour: str,
) -> Drawing:
    """Points in the plane, coloured by group or by value."""
    if not len(x) == len(y) == len(colours):
        raise ValueError(f"{len(x)}, {len(y)} and {len(colours)} numbers for x, y and colour.")
    groups = [c for c in colours if isinstance(c, str)]
    return {
        "kind": "scatter",
        "x": _rounded(x),
        "y": _rounded(y),
        "labels": list(labels),
        "colours": groups or _rounded([float(c) for c in colours]),
        "colour": colour,
    }


def _png(image: Tensor) -> str:
    pixels = np.asarray(image.cpu().permute(1, 2, 0).numpy())
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    picture.thumbnail((LONGEST, LONGEST), Image.Resampling.BOX)
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _rounded(values: Sequence[float]) -> list[float | None]:
    return [float(f"{v:.{DIGITS}g}") if isfinite(v) else None for v in values]
