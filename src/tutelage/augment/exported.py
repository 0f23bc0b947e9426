"""Export of a policy as plain values that name functions of torchvision."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tutelage.augment.spaces import Space

Call = tuple[str, dict[str, Any]]
"""a function of ``torchvision.transforms.v2.functional``, and its arguments beside the image"""
APPROXIMATE = ("blur", "cutout")
"""operations that torchvision does not have: blurred by a Gaussian of the same spread, cut out
at one of sixteen places"""
NOTHING: Call = ("adjust_brightness", {"brightness_factor": 1.0})
SPREAD = math.sqrt(44 / 16)
"""standard deviation of the blur, pixels"""
SPOTS = [(2 * k + 1) / 8 for k in range(4)]


def _affine(move: tuple[int, int], shear: tuple[float, float], *, corner: bool) -> Call:
    degrees = [math.degrees(math.atan(value)) for value in shear]
    parameters = {"angle": 0.0, "translate": list(move), "scale": 1.0, "shear": degrees}
    return "affine", parameters | ({"center": [0, 0]} if corner else {})


_CALLS: dict[str, Callable[[float], Call]] = {
    "identity": lambda _: NOTHING,
    "auto_contrast": lambda _: ("autocontrast", {}),
    "equalize": lambda _: ("equalize", {}),
    "invert": lambda _: ("invert", {}),
    "flip_lr": lambda _: ("horizontal_flip", {}),
    "flip_ud": lambda _: ("vertical_flip", {}),
    "rotate": lambda v: ("rotate", {"angle": v}),
    "solarize": lambda v: ("solarize", {"threshold": v}) if v <= 255 else NOTHING,
    "posterize": lambda v: ("posterize", {"bits": int(v)}),
    "color": lambda v: ("adjust_saturation", {"saturation_factor": v}),
    "contrast": lambda v: ("adjust_contrast", {"contrast_factor": v}),
    "brightness": lambda v: ("adjust_brightness", {"brightness_factor": v}),
    "sharpness": lambda v: ("adjust_sharpness", {"sharpness_factor": v}),
    "shear_x": lambda v: _affine((0, 0), (v, 0.0), corner=True),
    "shear_y": lambda v: _affine((0, 0), (0.0, v), corner=True),
    "translate_x": lambda v: _affine((int(v), 0), (0.0, 0.0), corner=False),
    "translate_y": lambda v: _affine((0, int(v)), (0.0, 0.0), corner=False),
    "blur": lambda _: ("gaussian_blur", {"kernel_size": [5, 5], "sigma": [SPREAD, SPREAD]}),
}


def exported(
    space: Space,
    how_many: Sequence[float],
    keep: Sequence[float],
    strength: Sequence[Sequence[float]],
    size: tuple[int, int],
) -> dict[str, Any]:
    """A learned policy as plain values for JSON."""
    values = space.values(*size)
    operations = [
        {
            "name": name,
            "keep": float(keep[row]),
            "strength": [float(p) for p in strength[row]],
            "calls": [_calls(name, pair, size) for pair in values[row].tolist()],
        }
        for row, name in enumerate(space.operations)
    ]
    return {
        "size": list(size),
        "count": [float(p) for p in how_many],
        "approximate": [name for name in APPROXIMATE if name in space.operations],
        "operations": operations,
    }


def _calls(name: str, values: Sequence[float], size: tuple[int, int]) -> list[list[Any]]:
    if name == "cutout":
        return [list(_cut(values[0], (y, x), size)) for y in SPOTS for x in SPOTS]
    return [list(_CALLS[name](value)) for value in dict.fromkeys(values)]


def _cut(side: float, spot: tuple[float, float], size: tuple[int, int]) -> Call:
    first = np.floor(np.multiply(spot, size)) - side // 2
    i, j = np.clip(first, 0, size).astype(int).tolist()
    after = np.clip(first + side, 0, size).astype(int).tolist()
    return "erase", {"i": i, "j": j, "h": after[0] - i, "w": after[1] - j, "v": 0}
