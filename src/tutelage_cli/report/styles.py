"""Colours, dashes and markers of charts: any two lines differ in two of the three."""

from collections.abc import Sequence
from html import escape
from itertools import cycle, islice
from types import MappingProxyType
from typing import NamedTuple

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif"
INK = "#010203"  # drawn as ``currentColor``, the colour of the surrounding text


class LineStyle(NamedTuple):
    """Colour, dash, marker and hatch of one arm or one kind of label."""

    colour: str
    dash: tuple[float, ...]
    """Lengths of dashes and gaps in line widths; empty for a solid line."""
    marker: str
    """Its outline is in ``SHAPES``."""
    hatch: str


# Each has a contrast of 3 or more with both the white and the dark page; hues after Okabe and
# Ito, shifted to a middle lightness for that.
TINT = 0.25  # opacity of bands and fillings
BLUE, VERMILION, GREEN, PURPLE = "#1f78c8", "#d55e00", "#0a9370", "#b565a7"

ARMS = (
    LineStyle(INK, (), "o", ""),
    LineStyle(BLUE, (5, 1.6), "s", ""),
    LineStyle(VERMILION, (1.2, 1.4), "^", ""),
    LineStyle(GREEN, (6, 1.5, 1.2, 1.5), "D", ""),
    LineStyle(PURPLE, (9, 2), "v", ""),
    LineStyle(INK, (2.5, 2.5), "P", ""),
    LineStyle(BLUE, (8, 1.5, 1.2, 1.5, 1.2, 1.5), "X", ""),
    LineStyle(VERMILION, (), "<", ""),
    LineStyle(GREEN, (2.5, 2.5), ">", ""),
    LineStyle(PURPLE, (5, 1.6), "d", ""),
    LineStyle(INK, (9, 2), "|", ""),
    LineStyle(BLUE, (1.2, 1.4), "_", ""),
    LineStyle(VERMILION, (6, 1.5, 1.2, 1.5), "*", ""),
    LineStyle(GREEN, (), "h", ""),
)
RIGHT = LineStyle(BLUE, (), "o", "")
WRONG = LineStyle(VERMILION, (3.5, 1.6), "x", "//////")
UNKNOWN = LineStyle(INK, (), "o", "")

_SALTIRE = "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z"
SHAPES = MappingProxyType({
    "o": "M.9,0A.9,.9,0,1,1,-.9,0A.9,.9,0,1,1,.9,0Z",
    "s": "M-.8,-.8L.8,-.8L.8,.8L-.8,.8Z",
    "^": "M0,-1L1,.8L-1,.8Z",
    "D": "M0,-1.1L1.1,0L0,1.1L-1.1,0Z",
    "v": "M0,1L1,-.8L-1,-.8Z",
    "P": "M-.35,-1L.35,-1L.35,-.35L1,-.35L1,.35L.35,.35L.35,1L-.35,1L-.35,.35L-1,.35L-1,-.35"
    "L-.35,-.35Z",
    "<": "M-1,0L.8,-1L.8,1Z",
    ">": "M1,0L-.8,-1L-.8,1Z",
    "d": "M0,-1.2L.65,0L0,1.2L-.65,0Z",
    "|": "M-.35,-1.1L.35,-1.1L.35,1.1L-.35,1.1Z",
    "_": "M-1.1,-.35L1.1,-.35L1.1,.35L-1.1,.35Z",
    "*": "M0,-1.1L.3,-.4L1.1,-.3L.5,.2L.7,1L0,.6L-.7,1L-.5,.2L-1.1,-.3L-.3,-.4Z",
    "h": "M1,0L.5,.87L-.5,.87L-1,0L-.5,-.87L.5,-.87Z",
    "X": _SALTIRE,
    "x": _SALTIRE,
})
"""outlines of the markers as SVG paths, about the origin and about 2 wide"""
HATCHED = "hatched"
"""id of the fill pattern of hatched styles; ``PATTERNS`` defines it"""
PATTERNS = (
    '<svg class="patterns" width="0" height="0" aria-hidden="true" focusable="false"><defs>'
    f'<pattern id="{HATCHED}" width="5" height="5" patternUnits="userSpaceOnUse" '
    f'patternTransform="rotate(45)"><path d="M1,0V5" stroke="{WRONG.colour}" stroke-width="1"/>'
    "</pattern></defs></svg>"
)
"""written once on a page; all its charts refer to it"""


def arm_styles(names: Sequence[str]) -> dict[str, LineStyle]:
    """The style of each arm, by its position in the run."""
    return dict(zip(names, islice(cycle(ARMS), len(names)), strict=True))


def filling(style: LineStyle) -> tuple[str, float]:
    """Fill and opacity of an area in a style."""
    return (f"url(#{HATCHED})", 1.0) if style.hatch else (style.colour, TINT)


def dashes(style: LineStyle, width: float) -> list[float]:
    """Dash lengths of a line in a style, in pixels."""
    return [round(width * length, 2) for length in style.dash] or [1.0, 0.0]


def legend(entries: Sequence[tuple[str, LineStyle]]) -> str:
    """A legend in HTML: a sample of each style and its name."""
    items = "".join(
        f"<li>{_sample(style)}<span>{escape(name)}</span></li>" for name, style in entries
    )
    return f'<ul class="legend">{items}</ul>'


def arm_legend(names: Sequence[str]) -> str:
    """The legend of arms, or of other lines in the styles of ``arm_styles``."""
    return legend(list(arm_styles(names).items()))


def _sample(style: LineStyle) -> str:
    fill, opacity = filling(style)
    dash = " ".join(f"{length:g}" for length in dashes(style, 1.8))
    drawn = (
        '<svg viewBox="0 0 40 16" aria-hidden="true" focusable="false">'
        f'<rect width="40" height="16" fill="{fill}" fill-opacity="{opacity:g}"/>'
        f'<path d="M0,8H40" stroke="{style.colour}" stroke-width="1.8" '
        f'stroke-dasharray="{dash}"/>'
        f'<path d="{SHAPES[style.marker]}" transform="translate(20,8) scale(3.6)" '
        f'fill="{style.colour}"/></svg>'
    )
    return drawn.replace(INK, "currentColor")
