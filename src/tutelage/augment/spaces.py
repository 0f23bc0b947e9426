"""Search spaces: operations and their strengths at every level."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from tutelage.augment.operations import PLACE
from tutelage.errors import require_known

Values = Float64[np.ndarray, "K"]


class Strength(NamedTuple):
    """The strength of an operation at every level."""

    at: Callable[[int, int, int], Values]
    """from K, height and width to K values in the operation's unit"""
    signed: bool = False
    """whether the value's sign is drawn; of a factor, that of ``factor - 1``"""


@dataclass(frozen=True)
class Space:
    """Named operations with their strengths at every level."""

    name: str
    strengths: Mapping[str, Strength]
    levels: int = 31
    """K; levels are 0..K-1"""

    @property
    def operations(self) -> tuple[str, ...]:
        """The names of its operations, in order."""
        return tuple(self.strengths)

    @property
    def places(self) -> Int64[np.ndarray, "A"]:
        """The place of each of its operations among all."""
        return np.array([PLACE[name] for name in self.strengths])

    def values(self, height: int, width: int) -> Float64[np.ndarray, "A K 2"]:
        """The value of every operation at every level, as it is and with the opposite sign."""
        found = np.empty((len(self.strengths), self.levels, 2))
        for row, (name, strength) in enumerate(self.strengths.items()):
            value = strength.at(self.levels, height, width)
            found[row] = value[:, None]
            if strength.signed:
                found[row, :, 1] = 2 - value if name in FACTORS else -value
        return found

    @property
    def has_strength(self) -> Bool[np.ndarray, "A"]:
        """Whether an operation's levels differ."""
        values = self.values(32, 32)[..., 0]
        return (values != values[:, :1]).any(1)


FACTORS = {"brightness", "color", "contrast", "sharpness"}
"""operations whose value is a factor; 1 changes nothing"""


def space_named(name: str) -> Space:
    """One of ``SPACES``.

    Args:
        name: Its name.

    Returns:
        The space.

    Note: raises ``UsageError`` if there is none of that name.
    """
    require_known("unknown search space", name, SPACES)
    return SPACES[name]


def _to(most: float, start: float = 0.0, *, signed: bool, whole: bool = False) -> Strength:
    def at(levels: int, _height: int, _width: int) -> Values:
        value = start + _shares(levels) * (most - start)
        return _whole(value) if whole else value

    return Strength(at, signed)


def _cut(share: float) -> Strength:
    return Strength(lambda levels, _, width: _whole(_shares(levels) * share * width))


def _bits(most: int, least: int) -> Strength:
    return Strength(lambda levels, _h, _w: most - _whole(_shares(levels) * (most - least)))


def _shares(levels: int) -> Values:
    return np.arange(levels) / max(levels - 1, 1)


def _whole(value: Values) -> Values:
    return np.trunc(value + 1e-9)  # so that 18 / 30 of 10 is 6


def _even(most: float, start: float = 0.0, *, signed: bool, whole: bool = False) -> Strength:
    # torchvision's magnitudes, to the bit
    def at(levels: int, _height: int, _width: int) -> Values:
        value = torch.linspace(start, most, levels).double().numpy()
        return np.trunc(value) if whole else value

    return Strength(at, signed)


def _enhanced(most: float) -> Strength:
    inner = _even(most, signed=True)
    return Strength(lambda *place: 1 + inner.at(*place), signed=True)


def _of_side(share: float, axis: int) -> Strength:
    def at(levels: int, *size: int) -> Values:
        return _even(share * size[axis], signed=True, whole=True).at(levels, *size)

    return Strength(at, signed=True)


def _rounded_bits(least: int) -> Strength:
    def at(levels: int, _height: int, _width: int) -> Values:
        gone = torch.arange(levels) / ((levels - 1) / (8 - least))
        return (8 - gone).round().double().numpy()

    return Strength(at)


_NONE = Strength(lambda levels, _h, _w: np.zeros(levels))


def _trivial(
    *,
    turn: float,
    factor: tuple[float, float],
    bits: tuple[int, int],
    shear: float,
    move: float,
) -> dict[str, Strength]:
    # the fourteen operations of TrivialAugment's own code, which UniformAugment and OLA share
    return {
        "identity": _NONE,
        "auto_contrast": _NONE,
        "equalize": _NONE,
        "rotate": _to(turn, whole=True, signed=True),
        "solarize": Strength(lambda levels, _h, _w: 256 - _whole(_shares(levels) * 256)),
        "color": _to(factor[1], factor[0], signed=False),
        "posterize": _bits(*bits),
        "contrast": _to(factor[1], factor[0], signed=False),
        "brightness": _to(factor[1], factor[0], signed=False),
        "sharpness": _to(factor[1], factor[0], signed=False),
        "shear_x": _to(shear, signed=True),
        "shear_y": _to(shear, signed=True),
        "translate_x": _to(move, whole=True, signed=True),
        "translate_y": _to(move, whole=True, signed=True),
    }


def _torchvision(
    *, shear: float, turn: float, factor: float, fewest: int, move: dict[str, Strength]
) -> dict[str, Strength]:
    # the operations of torchvision's policies, in its order
    enhanced = ("brightness", "color", "contrast", "sharpness")
    return {
        "shear_x": _even(shear, signed=True),
        "shear_y": _even(shear, signed=True),
        **move,
        "rotate": _even(turn, signed=True),
        **{name: _enhanced(factor) for name in enhanced},
        "posterize": _rounded_bits(fewest),
        "solarize": Strength(lambda *place: 255 * _even(0.0, 1.0, signed=False).at(*place)),
        "auto_contrast": _NONE,
        "equalize": _NONE,
    }


_BY_SIZE = {"translate_x": _of_side(150 / 331, 1), "translate_y": _of_side(150 / 331, 0)}
_FAR = _even(32.0, signed=True, whole=True)
_BY_32 = {"translate_x": _FAR, "translate_y": _FAR}
_NARROW = _torchvision(shear=0.3, turn=30.0, factor=0.9, fewest=4, move=_BY_SIZE)

SPACES: dict[str, Space] = {
    space.name: space
    for space in (
        Space("rand-augment", {"identity": _NONE} | _NARROW),
        Space(
            "trivial-wide",
            {"identity": _NONE}
            | _torchvision(shear=0.99, turn=135.0, factor=0.99, fewest=2, move=_BY_32),
        ),
        Space("auto-augment", _NARROW | {"invert": _NONE}, levels=10),
        Space(
            "standard",
            _trivial(turn=30.0, factor=(0.1, 1.9), bits=(4, 0), shear=0.3, move=10.0),
        ),
        Space(
            "wide-long",
            _trivial(turn=135.0, factor=(0.01, 2.0), bits=(8, 2), shear=0.99, move=32.0)
            | dict.fromkeys(("blur", "invert", "flip_lr", "flip_ud"), _NONE)
            | {"cutout": _cut(0.6)},
        ),
    )
}
"""``rand-augment``, ``trivial-wide`` and ``auto-augment`` are torchvision's; ``standard`` and
``wide-long`` are those of Müller et al. 2021 (their RA and WL), from TrivialAugment's code"""
