"""The figure of a result: its plots, two beside one another, as one SVG file."""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from papers.framework.page import number
from tutelage.storage.atomic_files import write_atomically
from tutelage_cli.report import styles
from tutelage_cli.report.styles import BLUE, INK, VERMILION, LineStyle

COLUMNS = 2  # plots side by side
WIDTH, HEIGHT = 4.2, 3.1  # of a plot with its title, inches
NAMED = 30  # names up to which a grid shows them
SHADES = LinearSegmentedColormap.from_list("shades", ["#f4f6f8", BLUE, "#0b2540"])
VALUES = LinearSegmentedColormap.from_list("values", [BLUE, "#c9b458", VERMILION])
MANY = matplotlib.colormaps["tab10"]
"""colours of groups where they are too many for those of arms"""
STYLE = {
    "svg.fonttype": "none",  # text stays text: small, and it can be searched and read aloud
    "svg.hashsalt": "tutelage",
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.14,
    "grid.linewidth": 0.7,
}


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
    """The figure as text; the same for the same result."""
    plots = content["plots"]
    rows = -(-len(plots) // COLUMNS)

    def draw(whole: Figure) -> str:
        places = whole.subfigures(rows, COLUMNS, squeeze=False).flatten()
        pairs = zip(plots, places, strict=False)
        return " ".join(_draw(place, plot, content) for plot, place in pairs)

    return svg((COLUMNS * WIDTH, rows * HEIGHT), draw)


def svg(inches: tuple[float, float], draw: Callable[[Figure], str]) -> str:
    """An SVG document of what ``draw`` puts into a figure, under the title that it returns.

    Note: matplotlib reads its settings from one global table, which is changed while the
    figure is made, so do not draw from two threads.
    """
    with matplotlib.style.context(["default", STYLE]):
        whole, text = Figure(figsize=inches, layout="constrained"), io.StringIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type")) | {"Title": draw(whole)}
        whole.savefig(text, format="svg", metadata=metadata)
    return text.getvalue()


def _draw(place: SubFigure, plot: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    # draws one plot, and describes it for who cannot see it
    place.suptitle(_plain(plot["title"]), fontsize=11, fontweight="bold")
    if "lines" in plot:
        return _draw_lines(place.subplots(), plot, content["series"])
    drawing = content["drawings"].get(plot["arm"], {}).get(plot["drawing"])
    if drawing is not None:  # else every job of the arm failed
        DRAW[drawing["kind"]](place, drawing)
    return f"{plot['title']}."


def _draw_lines(axes: Axes, plot: Mapping[str, Any], series: Mapping[str, Any]) -> str:
    looks = styles.arm_styles(list(plot["lines"]))
    lines = [
        _over_seeds(name, series.get(arm, {}).get(one, []))
        for name, (arm, one) in plot["lines"].items()
    ]
    lines = [line for line in lines if len(line.mean)]
    for line in lines:
        x, look = np.arange(1, len(line.mean) + 1), looks[line.name]
        axes.fill_between(x, line.low, line.high, color=look.colour, alpha=styles.TINT, lw=0)
        every = 1 + len(x) // 13
        axes.plot(x, line.mean, label=_plain(line.name), markevery=every, **stroke(look))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel=_plain(plot["across"]), ylabel=_plain(plot["label"]))
    if lines:
        axes.legend(fontsize=7.5, frameon=False)
    last = "; ".join(f"{line.name}: {number(float(line.mean[-1]))}" for line in lines)
    return f"{plot['title']}. At the end {last or 'nothing'}."


def _over_seeds(name: str, seeds: Sequence[Sequence[float | None] | None]) -> Line:
    whole = [np.array(values, dtype=np.float64) for values in seeds if values]
    if not whole:
        return Line(name, *[np.empty(0)] * 3)
    table = np.stack([values[: min(map(len, whole))] for values in whole])
    kept = np.ma.masked_invalid(table)  # a seed that diverged is left out from there on
    return Line(
        name, *(np.ma.filled(s, np.nan) for s in (kept.mean(0), kept.min(0), kept.max(0)))
    )


def stroke(style: LineStyle) -> dict[str, Any]:
    """Arguments for ``Axes.plot`` that draw a line in this style."""
    dash = (0, style.dash) if style.dash else "-"
    return {"color": style.colour, "ls": dash, "marker": style.marker, "lw": 1.5, "ms": 4.5}


def _draw_images(place: SubFigure, drawing: Mapping[str, Any]) -> None:
    axes, tall = place.subplots(), drawing["tall"]
    rows, captions = drawing["rows"], drawing["captions"]
    for top, images in enumerate(rows.values()):
        for left, image in enumerate(images):
            pixels = Image.open(io.BytesIO(base64.b64decode(image)))
            edges = left + 0.03, left + 0.97, tall * (top + 0.97), tall * (top + 0.03)
            axes.imshow(pixels, "gray", vmin=0, vmax=255, interpolation="none", extent=edges)
    axes.set(xlim=(0, len(captions)), ylim=(tall * len(rows), 0), frame_on=False)
    axes.set_xticks(np.arange(len(captions)) + 0.5, map(_plain, captions), fontsize=6.5)
    axes.set_yticks(tall * (np.arange(len(rows)) + 0.5), map(_plain, rows))
    axes.tick_params(length=0)
    axes.grid(visible=False)


def _draw_grid(place: SubFigure, drawing: Mapping[str, Any]) -> None:
    axes, names = place.subplots(), drawing["names"]
    values = np.array(drawing["values"], dtype=np.float64)
    axes.grid(visible=False)
    _add_colour_bar(axes, axes.imshow(values, cmap=SHADES), drawing["label"])
    axes.set(xlabel=_plain(drawing["columns"]), ylabel=_plain(drawing["rows"]))
    shown = [_plain(name) for name in names] if len(names) <= NAMED else []
    axes.set_xticks(range(len(shown)), shown, rotation=90, fontsize=7)
    axes.set_yticks(range(len(shown)), shown, fontsize=7)
    axes.tick_params(length=0)


def _draw_scatter(place: SubFigure, drawing: Mapping[str, Any]) -> None:
    axes, colours = place.subplots(), drawing["colours"]
    x, y = (np.array(drawing[side], dtype=np.float64) for side in ("x", "y"))
    xlabel, ylabel = (_plain(label) for label in drawing["labels"])
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    if not (colours and isinstance(colours[0], str)):
        values = np.array(colours, dtype=np.float64)
        points = axes.scatter(x, y, c=values, cmap=VALUES, s=7, linewidths=0)
        _add_colour_bar(axes, points, drawing["colour"])
        return
    groups = sorted(set(colours))
    for n, group in enumerate(groups):
        rows, look = np.array(colours) == group, styles.ARMS[n % len(styles.ARMS)]
        colour = MANY(n % MANY.N) if len(groups) > len(styles.ARMS) else look.colour
        style: dict[str, Any] = {
            "color": colour,
            "marker": look.marker,
            "s": 8,
            "linewidths": 0,
        }
        axes.scatter(x[rows], y[rows], label=_plain(group), **style)
    beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
    axes.legend(title=_plain(drawing["colour"]), fontsize=7, frameon=False, **beside)


def _add_colour_bar(axes: Axes, values: ScalarMappable, label: str) -> None:
    bar = axes.figure.colorbar(values, ax=axes, fraction=0.05, pad=0.02, label=_plain(label))
    bar.ax.grid(visible=False)
    bar.ax.tick_params(labelsize=7)


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # else taken for mathematics


DRAW = {"images": _draw_images, "grid": _draw_grid, "scatter": _draw_scatter}
"""by the kind of a drawing, see ``papers.framework.drawings``"""
