"""Colours, dashes and markers: two of the three suffice to tell any two lines apart."""

from collections.abc import Sequence
from html import escape
from itertools import cycle, islice
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from tutelage.report.svg import INK, swatch


class Look(NamedTuple):
    """How one arm or one kind of label is drawn."""

    colour: str
    dash: tuple[float, ...]
    """Lengths of ink and gap in line widths; empty for an unbroken line."""
    marker: str
    hatch: str


# Each has a contrast of 3 or more with both the white and the dark page; hues after Okabe and
# Ito, shifted to a middle lightness for that.
TINT = 0.25  # opacity of bands and fillings
BLUE, VERMILION, GREEN, PURPLE = "#1f78c8", "#d55e00", "#0a9370", "#b565a7"

ARMS = (
    Look(INK, (), "o", ""),
    Look(BLUE, (5, 1.6), "s", ""),
    Look(VERMILION, (1.2, 1.4), "^", ""),
    Look(GREEN, (6, 1.5, 1.2, 1.5), "D", ""),
    Look(PURPLE, (9, 2), "v", ""),
    Look(INK, (2.5, 2.5), "P", ""),
    Look(BLUE, (8, 1.5, 1.2, 1.5, 1.2, 1.5), "X", ""),
)
RIGHT = Look(BLUE, (), "o", "")
WRONG = Look(VERMILION, (3.5, 1.6), "x", "//////")
UNKNOWN = Look(INK, (), "o", "")


def arm_looks(names: Sequence[str]) -> dict[str, Look]:
    """The look of each arm, by its place in the run.

    Args:
        names: All arms of the run, in order.

    Returns:
        Looks by arm; they repeat after the seventh.
    """
    return dict(zip(names, islice(cycle(ARMS), len(names)), strict=True))


def legend(entries: Sequence[tuple[str, Look]], *, mark: str) -> str:
    """A list of names, each behind a sample of its look.

    Args:
        entries: Name and look, in order.
        mark: Begins every id in the samples; must be unique on the page.

    Returns:
        A ``<ul>`` element.
    """
    items = []
    for n, (name, look) in enumerate(entries):
        sample = swatch(lambda axes, look=look: _sample(axes, look), mark=f"{mark}-{n}")
        items.append(f"<li>{sample}<span>{escape(name)}</span></li>")
    return f'<ul class="legend">{"".join(items)}</ul>'


def _sample(axes: Axes, look: Look) -> None:
    if look.hatch:
        fill(axes, [1.0], [0.0, 1.0], look)
    else:
        axes.fill_between([0, 1], 0, 1, color=look.colour, alpha=TINT, linewidth=0)
    axes.plot([0, 0.5, 1], [0.5] * 3, **line(look), markevery=[1], clip_on=False)


def line(look: Look) -> dict[str, Any]:
    """Arguments for ``Axes.plot`` that draw a line in this look.

    Args:
        look: The look.

    Returns:
        Keyword arguments.
    """
    return {
        "color": look.colour,
        "linestyle": (0, look.dash) if look.dash else "-",
        "marker": look.marker,
        "linewidth": 1.5,
        "markersize": 4.5,
    }


def fill(axes: Axes, heights: ArrayLike, edges: ArrayLike, look: Look) -> None:
    """Draw steps filled in this look: tinted, or hatched where the look has a hatch.

    Args:
        axes: Where.
        heights: One height per step.
        edges: Where the steps begin and the last one ends, one more than heights.
        look: The look.
    """
    if look.hatch:
        axes.stairs(heights, edges, fill=False, hatch=look.hatch, edgecolor=look.colour)
    else:
        axes.stairs(heights, edges, fill=True, color=look.colour, alpha=TINT)
        axes.stairs(heights, edges, color=look.colour)
