"""A red and a blue digit in two quadrants of one image: the red one is the label."""

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.images import Described, ImageSet
from tutelage_cli.data.resize import Size, covering

_RED, _BLUE = 0, 2
"""channels"""


def coloured_digits(digits: ImageSet, count: int, *, side: int, seed: int) -> Described:
    """Black images with a red and a blue digit in two different quadrants.

    Digits are drawn with replacement, each uniformly and independently of the other; so are
    the quadrants, except that they differ. A digit fills its quadrant of side / 2 pixels; red
    ink is in the first channel only and blue ink in the last only. It is a UsageError if the
    images are not grey, or the side is odd or below 2.

    Source: Raghu et al., 2021, "Teaching with Commentaries", section 5 and appendix D.
    """
    _refuse_unfit(digits, side)
    generator = torch.Generator().manual_seed(seed)
    red, blue = (
        digits.rows(torch.randint(len(digits), (count,), generator=generator)) for _ in "rb"
    )
    red_quadrant = torch.randint(4, (count,), generator=generator)
    blue_quadrant = (red_quadrant + torch.randint(1, 4, (count,), generator=generator)) % 4
    canvas = torch.zeros(count, 3, side, side, dtype=torch.uint8)
    _paint(canvas, _RED, red.images, red_quadrant)
    _paint(canvas, _BLUE, blue.images, blue_quadrant)
    facts = {
        "red_quadrant": red_quadrant,
        "blue_quadrant": blue_quadrant,
        "red_centre": _centre(red_quadrant, side),
        "blue_centre": _centre(blue_quadrant, side),
        "blue_label": blue.labels,
        "red_base": red.ids,
        "blue_base": blue.ids,
    }
    name = f"{digits.name}, coloured"
    rows = torch.arange(count)
    return Described(ImageSet(canvas, red.labels, rows, digits.classes, name), facts)


def _paint(canvas: Tensor, channel: int, digits: Tensor, quadrants: Tensor) -> None:
    half = canvas.shape[-1] // 2
    ink = covering(digits, Size(half, half))[:, 0]
    for quadrant in range(4):
        top, left = (half * place for place in divmod(quadrant, 2))
        here = quadrants == quadrant
        canvas[here, channel, top : top + half, left : left + half] = ink[here]


def _centre(quadrants: Tensor, side: int) -> Tensor:
    half = side // 2
    places = torch.stack([quadrants // 2, quadrants % 2], 1)
    return places * float(half) + (half - 1) / 2


def _refuse_unfit(digits: ImageSet, side: int) -> None:
    if side < 2 or side % 2:
        raise UsageError(f"side is {side} pixels; allowed: even numbers from 2.")
    if digits.images.shape[1] != 1 or not len(digits):
        raise UsageError(
            f"{digits.name} has images of shape {tuple(digits.images.shape)}; give at least "
            "one grey image, [N, 1, H, W]."
        )
