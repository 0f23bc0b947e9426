"""What kinds of charts share: looks as channels, scales and axes, and what hovering says."""

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log10
from typing import Any, NamedTuple, Protocol, runtime_checkable

import altair as alt
import numpy as np

from tutelage_cli.report import formats
from tutelage_cli.report import styles as looks
from tutelage_cli.report.styles import Look

STROKE = 1.8
"""width of a line, in pixels"""
TOLD = "told:N"
"""the tooltip of a chart"""
SPAN = 30
"""factor between the most and the least from which on an axis is logarithmic"""


class Kind(NamedTuple):
    """What some of the things shown have in common: its name and how it looks."""

    name: str
    look: Look


@runtime_checkable
class HasLook(Protocol):
    """A kind, or a line."""

    @property
    def look(self) -> Look:
        """How it is drawn."""
        ...


class Channels:
    """How some lines or points become channels of a chart, by their place in its field ``of``.

    Args:
        of: The lines or kinds.
    """

    def __init__(self, of: Iterable[HasLook]) -> None:
        found = [one.look for one in of]
        keys = [str(n) for n in range(len(found))]
        colours = alt.Scale(domain=keys, range=[look.colour for look in found])
        dashes = alt.Scale(domain=keys, range=[looks.dashes(look, STROKE) for look in found])
        shapes = alt.Scale(domain=keys, range=[looks.SHAPES[look.marker] for look in found])
        self.colour = alt.Color("of:N", legend=None, scale=colours)
        self.fill = alt.Fill("of:N", legend=None, scale=colours)
        self.dash = alt.StrokeDash("of:N", legend=None, scale=dashes)
        self.shape = alt.Shape("of:N", legend=None, scale=shapes)


def upright(title: str, values: Sequence[float]) -> dict[str, Any]:
    """Scale and axis of numbers, logarithmic where these span a factor of ``SPAN``."""
    finite = [value for value in values if np.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    if low <= 0 or high < SPAN * low:
        return {"title": title, "scale": alt.Scale(zero=False), "axis": alt.Axis()}
    steps = (1, 3) if high < 1000 * low else (1,)
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [float(f"{step}e{decade}") for decade in decades for step in steps]
    shown = [tick for tick in ticks if low / 2 <= tick <= 2 * high]
    scale = alt.Scale(type="log", nice=False, domain=[min(low, *shown), max(high, *shown)])
    return {"title": title, "scale": scale, "axis": alt.Axis(values=shown, format="~r")}


def across(title: str, places: Sequence[float]) -> alt.X:
    """The axis across, of the field ``x``."""
    axis = alt.Axis(grid=True)
    if all(float(place).is_integer() for place in places):
        few = sorted(set(places))
        axis = alt.Axis(format="d", tickMinStep=1)
        if len(few) < 4:
            axis = alt.Axis(format="d", values=few)
    return alt.X("x:Q", title=title, axis=axis, scale=alt.Scale(zero=False, nice=False))


def told(names: Sequence[str], values: Sequence[str]) -> str:
    """What is said of something that is hovered, in its field ``told``.

    The channel is always ``TOLD``: Vega-Lite writes the names of fields and their titles into
    expressions, where not all characters may stand.
    """
    return "\n".join(f"{n}: {value}" for n, value in zip(names, values, strict=True))


def span(
    mean: float, low: float, high: float, *, write: Callable[[float], str] = formats.number
) -> str:
    """A value with its range, in words."""
    return f"{write(mean)} ({write(low)} to {write(high)})" if low < high else write(mean)
