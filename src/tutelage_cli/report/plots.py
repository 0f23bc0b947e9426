"""Charts with two axes of numbers: lines with bands over seeds, histograms, points."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import altair as alt
import numpy as np
from jaxtyping import Float, Integer

from tutelage_cli.report import formats, styles
from tutelage_cli.report.channels import (
    STROKE,
    TOOLTIP,
    Channels,
    Kind,
    number_axis,
    tooltip,
    with_range,
    x_axis,
)
from tutelage_cli.report.content import Curve
from tutelage_cli.report.interactive import HOVER, Chart, Row, drawing
from tutelage_cli.report.styles import INK, TINT, LineStyle

POINT = 36
"""size of a marker in square pixels"""
MARKERS = 13
"""markers on a line, about"""
ACROSS = 300
"""width of the plotting area in pixels, about"""


class Track(NamedTuple):
    """Mean, lowest and highest value over seeds after each epoch."""

    epochs: Integer[np.ndarray, "T"]
    mean: Float[np.ndarray, "T"]
    low: Float[np.ndarray, "T"]
    high: Float[np.ndarray, "T"]


def track(
    curves: Iterable[Curve], values: Callable[[Curve], Sequence[float] | None]
) -> Track | None:
    """Summarise one quantity over curves, epoch by epoch.

    An epoch that only some seeds reached is summed up over those; values that are not finite
    are left out.
    """
    found: dict[int, list[float]] = {}
    for curve in curves:
        for epoch, value in zip(curve.epochs, values(curve) or (), strict=False):
            if np.isfinite(value):
                found.setdefault(epoch, []).append(value)
    return over_seeds(found) if found else None


def over_seeds(values: Mapping[int, Sequence[float]]) -> Track:
    """Summarise the values of the seeds at each epoch."""
    columns = [values[epoch] for epoch in sorted(values)]
    return Track(
        np.array(sorted(values)),
        np.array([np.mean(column) for column in columns], dtype=np.float64),
        np.array([min(column) for column in columns], dtype=np.float64),
        np.array([max(column) for column in columns], dtype=np.float64),
    )


class Line(NamedTuple):
    """One line of a chart: its name, style and values."""

    name: str
    style: LineStyle
    track: Track


def line_chart(
    lines: Sequence[Line],
    axes: tuple[str, str],
    *,
    mark: str,
    title: str,
    write: Callable[[float], str] = formats.number,
) -> str:
    """Lines, each with a band from the lowest to the highest value."""
    rows = line_rows(lines)
    header = (axes[0], *(line.name for line in lines))
    cells = _cells(lines, write)
    hover = [
        {"x": x, "tooltip": tooltip(header, values_text)} for x, values_text in cells.items()
    ]
    x = x_axis(axes[0], list(cells))
    ends = [row[end] for row in rows for end in ("low", "high")]
    y = alt.Y("low:Q", **number_axis(axes[1], ends))
    layers = line_layers(Channels(lines), x, y)
    chart = alt.layer(*layers, _hovered(len(hover), x), data=alt.NamedData("rows"))
    data, numbers = {"rows": rows, HOVER: hover}, (header, list(cells.values()))
    return drawing(chart, mark=mark, title=title, data=data, numbers=numbers)


def line_rows(lines: Sequence[Line]) -> list[Row]:
    """The data of lines, for ``line_layers``."""
    return [row for n, line in enumerate(lines) for row in _along(str(n), line.track)]


def line_layers(kinds: Channels, x: alt.X, y: alt.Y, *, tint: float = TINT) -> list[alt.Chart]:
    """Bands, lines and markers."""
    base = alt.Chart().encode(x=x)
    return [
        base.mark_area(opacity=tint, aria=False).encode(y=y, y2="high:Q", color=kinds.colour),
        base.mark_line(strokeWidth=STROKE).encode(
            y="mean:Q", color=kinds.colour, strokeDash=kinds.dash
        ),
        base
        .mark_point(size=POINT, opacity=1, strokeWidth=0, aria=False)
        .encode(y="mean:Q", fill=kinds.fill, shape=kinds.shape)
        .transform_filter("datum.marked"),
    ]


def lines(
    places: Sequence[float],
    tracks: Mapping[str, Sequence[float]],
    axes: tuple[str, str],
    *,
    mark: str,
    title: str,
) -> str:
    """Named lines over the same x values, in the styles of ``styles.arm_styles``."""
    found = [
        Line(name, style, Track(np.array(places), *3 * [np.array(tracks[name], dtype=float)]))
        for name, style in styles.arm_styles(list(tracks)).items()
    ]
    return line_chart(found, axes, mark=mark, title=title)


def histogram(
    shares: Sequence[tuple[Kind, Float[np.ndarray, "n"]]],
    edges: Float[np.ndarray, "k"],
    axes: tuple[str, str],
    *,
    mark: str,
    title: str,
) -> str:
    """Overlaid histograms."""
    ends = edges.tolist()
    x = alt.X("x:Q", title=axes[0], scale=alt.Scale(zero=False, nice=False))
    y = alt.Y("y:Q", title=axes[1], scale=alt.Scale(zero=True))
    layers: list[Chart] = []
    data: dict[str, list[Row]] = {}
    for (name, style), heights in shares:
        data[name] = _outline(ends, heights)
        base = alt.Chart(alt.NamedData(name)).encode(x=x, y=y)
        colour, opacity = styles.filling(style)
        area = base.mark_area(interpolate="step-after", fillOpacity=opacity, aria=False)
        layers.append(area.encode(fill=alt.value(colour)))
        dash = styles.dashes(style, 1.4)
        edge = base.mark_line(interpolate="step-after", strokeWidth=1.4, aria=False)
        layers.append(
            edge.encode(order="n:Q", stroke=alt.value(style.colour), strokeDash=alt.value(dash))
        )
    header = (axes[0], *(kind.name for kind, _ in shares))
    cells = [
        (
            f"{formats.number(low)} to {formats.number(high)}",
            *(f"{heights[k]:.1f} %" for _, heights in shares),
        )
        for k, (low, high) in enumerate(pairwise(ends))
    ]
    data[HOVER] = [
        {"x": low, "x2": high, "tooltip": tooltip(header, values_text)}
        for (low, high), values_text in zip(pairwise(ends), cells, strict=True)
    ]
    hover = alt.Chart(alt.NamedData(HOVER), name=HOVER).mark_rect(opacity=0, aria=False)
    layers.append(hover.encode(x="x:Q", x2="x2:Q", tooltip=TOOLTIP))
    chart = alt.layer(*layers)
    return drawing(chart, mark=mark, title=title, data=data, numbers=(header, cells))


def _outline(ends: Sequence[float], heights: Float[np.ndarray, "n"]) -> list[Row]:
    upward = [0.0, *heights.tolist(), *heights[-1:].tolist(), 0.0]
    along = zip([ends[0], *ends, ends[-1]], upward, strict=True)
    return [{"x": x, "y": y, "n": n} for n, (x, y) in enumerate(along)]


def scatter(
    rows: Sequence[Row], kinds: Sequence[Kind], axes: tuple[str, str], *, mark: str, title: str
) -> str:
    """One point for each row."""
    kind = Channels(kinds)
    chart = (
        alt
        .Chart(alt.NamedData("rows"))
        .mark_point(size=24, strokeWidth=0, fillOpacity=0.5, aria=False)
        .encode(
            x=alt.X("x:Q", **number_axis(axes[0], [row["x"] for row in rows])),
            y=alt.Y("y:Q", title=axes[1], scale=alt.Scale(zero=False)),
            fill=kind.fill,
            shape=kind.shape,
            tooltip=TOOLTIP,
        )
    )
    return drawing(chart, mark=mark, title=title, data={"rows": rows})


def _along(key: str, track: Track) -> list[Row]:
    every = 1 + len(track.mean) // MARKERS
    return [
        {
            "x": x,
            "mean": mean,
            "low": low,
            "high": high,
            "of": key,
            "marked": place % every == 0,
        }
        for place, (x, mean, low, high) in enumerate(_columns(track))
    ]


def _cells(
    lines: Sequence[Line], write: Callable[[float], str]
) -> dict[float, tuple[str, ...]]:
    """Rows of the table of numbers: an x value and the value of every line."""
    found: list[dict[float, str]] = [
        {float(x): with_range(*values, write=write) for x, *values in _columns(line.track)}
        for line in lines
    ]
    return {
        x: (f"{x:g}", *(values_text.get(x, formats.DASH) for values_text in found))
        for x in sorted({x for values_text in found for x in values_text})
    }


def _columns(track: Track) -> Iterator[tuple[float, ...]]:
    return zip(*(part.tolist() for part in track), strict=True)


def _hovered(places: int, x: alt.X) -> alt.Chart:
    broad = max(4.0, ACROSS / max(places - 1, 1))
    return (
        alt
        .Chart(alt.NamedData(HOVER), name=HOVER)
        .mark_rule(strokeWidth=round(broad, 1), opacity=0, color=INK, aria=False)
        .encode(x=x, tooltip=TOOLTIP)
    )
