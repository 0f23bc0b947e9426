"""Rotated ones; the label is the direction of the rotation."""

from typing import NamedTuple

import torch

from tutelage.errors import UsageError
from tutelage_cli.data.described import Described
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.synthetic.rotation import rotated

DIGIT = "1"
CLASSES = ("clockwise", "anticlockwise")


class Degrees(NamedTuple):
    """The angles of the class ``anticlockwise``; the other class has the opposite ones."""

    lowest: float
    highest: float


SEPARATE = Degrees(15, 45)
"""no angle belongs to both classes"""
OVERLAPPING = Degrees(-5, 30)
"""angles in -5..5 belong to both"""


def rotated_ones(digits: ImageSet, count: int, *, degrees: Degrees, seed: int) -> Described:
    """Images of the digit one, each turned by a random angle.

    The class is drawn with equal probability, the digit with replacement, and the angle
    uniformly: from ``degrees`` for ``anticlockwise``, from their opposites for ``clockwise``.

    Source: Raghu et al., 2021, "Teaching with Commentaries", section 3.1 and appendix B.1.
    """
    if not -180 <= degrees.lowest < degrees.highest <= 180:
        raise UsageError(
            f"the range of angles is {degrees.lowest:g}..{degrees.highest:g} degrees; allowed: "
            "a rising pair within -180..180."
        )
    ones = _ones(digits)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=generator)
    base = ones.rows(torch.randint(len(ones), (count,), generator=generator))
    share = torch.rand(count, generator=generator)
    drawn = degrees.lowest + (degrees.highest - degrees.lowest) * share
    turn = torch.where(labels == 1, drawn, -drawn)
    name = f"{digits.name}, ones turned"
    images = ImageSet(rotated(base.images, turn), labels, torch.arange(count), CLASSES, name)
    return Described(images, {"degrees": turn, "base": base.ids})


def _ones(digits: ImageSet) -> ImageSet:
    if DIGIT in digits.classes:
        rows = (digits.labels == digits.classes.index(DIGIT)).nonzero().flatten()
        if len(rows):
            return digits.rows(rows)
    raise UsageError(
        f"{digits.name} has no images of the class '{DIGIT}' to turn; classes there: "
        f"{', '.join(digits.classes)}. Take mnist or mnist5k."
    )
