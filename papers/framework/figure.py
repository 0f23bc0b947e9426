"""The figure of a result: its plots beside one another in one SVG file."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from papers.framework.painting import NAMESPACE, painted, panel, stroke
from papers.framework.words import number
from tutelage.storage.atomic_files import write_atomically
from tutelage_cli.report import styles
from tutelage_cli.report.styles import FONT

ACROSS = 2
"""panels side by side"""
WIDTH, HEIGHT, TITLE = 300, 200, 22
"""of a panel and of the line above it, in points"""


class Line(NamedTuple):
    """One series over seeds: what the legend says, and mean, least and greatest value."""

    name: str
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def write_figure(content: Mapping[str, Any], file: Path) -> None:
    """Draw the plots of a result that have something to show."""
    write_atomically(file, figure(content).encode())


def figure(content: Mapping[str, Any]) -> str:
    """The figure as text."""
    drawn = [_panel(content, plot, n) for n, plot in enumerate(content["plots"])]
    rows = -(-len(drawn) // ACROSS)
    width, height = ACROSS * WIDTH, rows * (HEIGHT + TITLE) + 6
    return (
        f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" color="#1b1b1b"><rect width="{width}" height="{height}" '
        f'fill="#ffffff"/>{"".join(drawn)}</svg>\n'
    )


def _panel(content: Mapping[str, Any], plot: Mapping[str, Any], place: int) -> str:
    inside = _curves(content, plot, place) if "lines" in plot else _drawn(content, plot, place)
    x, y = WIDTH * (place % ACROSS), (HEIGHT + TITLE) * (place // ACROSS)
    sized = f'<svg x="{x}" y="{y + TITLE}" width="{WIDTH}" height="{HEIGHT}" '
    head = (
        f'<text x="{x + WIDTH / 2:g}" y="{y + 15}" text-anchor="middle" font-size="11" '
        f'font-weight="600" font-family="{FONT}">{escape(plot["title"])}</text>'
    )
    return head + inside.replace("<svg ", sized, 1)


def _drawn(content: Mapping[str, Any], plot: Mapping[str, Any], place: int) -> str:
    drawing = content["drawings"].get(plot["arm"], {}).get(plot["drawing"])
    if drawing is None:  # every job of the arm failed
        return f'<svg xmlns="{NAMESPACE}"><title>Nothing to show.</title></svg>'
    return painted(drawing, plot["title"], f"plot{place}", (WIDTH, HEIGHT))


def _curves(content: Mapping[str, Any], plot: Mapping[str, Any], place: int) -> str:
    lines = [
        _line(name, content["series"].get(arm, {}).get(series, []))
        for name, (arm, series) in plot["lines"].items()
    ]
    shown = [line for line in lines if len(line.mean)]
    return panel(
        lambda axes: _paint(axes, shown, [line.name for line in lines], plot),
        mark=f"plot{place}",
        title=_spoken(plot["title"], shown),
    )


def _paint(
    axes: Axes, lines: Sequence[Line], names: Sequence[str], plot: Mapping[str, Any]
) -> None:
    style_of = styles.arm_styles(names)
    for line in lines:
        style = style_of[line.name]
        at = np.arange(1, len(line.mean) + 1)
        axes.fill_between(
            at, line.low, line.high, color=style.colour, alpha=styles.TINT, linewidth=0
        )
        style = stroke(style) | {"markevery": 1 + len(at) // 13, "label": line.name}
        axes.plot(at, line.mean, **style)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel=plot["across"], ylabel=plot["label"])
    if lines:
        axes.legend(fontsize=7.5, frameon=False)


def _line(name: str, seeds: Sequence[Sequence[float | None] | None]) -> Line:
    whole = [np.array(values, dtype=np.float64) for values in seeds if values]
    if not whole:
        return Line(name, *[np.empty(0)] * 3)
    table = np.stack([values[: min(map(len, whole))] for values in whole])
    kept = np.ma.masked_invalid(table)  # a seed that diverged is left out from there on
    sums = kept.mean(0), kept.min(0), kept.max(0)
    return Line(name, *(np.ma.filled(np.ma.asarray(s), np.nan) for s in sums))


def _spoken(title: str, lines: Sequence[Line]) -> str:
    last = "; ".join(f"{line.name}: {number(float(line.mean[-1]))}" for line in lines)
    return f"{title}. At the end {last or 'nothing'}."
