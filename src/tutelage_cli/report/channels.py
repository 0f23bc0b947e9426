"""What charts share: encoding channels of styles, scales, axes and tooltips."""

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log10
from typing import Any, NamedTuple, Protocol, runtime_checkable

import altair as alt
import numpy as np

from tutelage_cli.report import formats, styles
from tutelage_cli.report.styles import LineStyle

STROKE = 1.8
"""width of a line, in pixels"""
TOOLTIP = "tooltip:N"
"""the tooltip channel of a chart"""
SPAN = 30
"""ratio of the largest to the smallest value from which an axis is logarithmic"""


class Kind(NamedTuple):
    """A kind of line or point: its name and style."""

    name: str
    style: LineStyle


@runtime_checkable
class HasStyle(Protocol):
    """A ``Kind`` or a ``Line``."""

    @property
    def style(self) -> LineStyle:
        """Its style."""
        ...


class Channels:
    """Encoding channels of lines or points, by their index in the field ``of``."""

    def __init__(self, items: Iterable[HasStyle], legend: alt.Legend | None = None) -> None:
        found = [one.style for one in items]
        keys = [str(n) for n in range(len(found))]
        colours = alt.Scale(domain=keys, range=[style.colour for style in found])
        dashes = alt.Scale(domain=keys, range=[styles.dashes(style, STROKE) for style in found])
        shapes = alt.Scale(domain=keys, range=[styles.SHAPES[style.marker] for style in found])
        self.colour = alt.Color("of:N", legend=legend, scale=colours)
        self.fill = alt.Fill("of:N", legend=legend, scale=colours)
        self.dash = alt.StrokeDash("of:N", legend=legend, scale=dashes)
        self.shape = alt.Shape("of:N", legend=legend, scale=shapes)


def number_axis(title: str, values: Sequence[float]) -> dict[str, Any]:
    """Scale and axis of numbers, logarithmic from a range of a factor of ``SPAN``."""
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


def x_axis(title: str, places: Sequence[float]) -> alt.X:
    """The x axis, of the field ``x``."""
    axis = alt.Axis(grid=True)
    if all(float(place).is_integer() for place in places):
        few = sorted(set(places))
        axis = alt.Axis(format="d", tickMinStep=1)
        if len(few) < 4:
            axis = alt.Axis(format="d", values=few)
    return alt.X("x:Q", title=title, axis=axis, scale=alt.Scale(zero=False, nice=False))


def tooltip(names: Sequence[str], values: Sequence[str]) -> str:
    """The text of a tooltip, the value of the field ``tooltip``.

    Names are part of the text and not of the channel, because Vega-Lite writes names of fields
    into expressions, which do not allow all characters.
    """
    return "\n".join(f"{n}: {value}" for n, value in zip(names, values, strict=True))


def with_range(
    mean: float, low: float, high: float, *, write: Callable[[float], str] = formats.number
) -> str:
    """A value with its range, as text."""
    return f"{write(mean)} ({write(low)} to {write(high)})" if low < high else write(mean)
