"""Drawings of ``papers.framework.drawings`` as the SVG of a panel."""

import io
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tutelage_cli.report import styles
from tutelage_cli.report.styles import FONT, INK, LineStyle

NAMESPACE = "http://www.w3.org/2000/svg"

_STYLE = {
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
    "hatch.linewidth": 0.9,
}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def panel(paint: Callable[[Axes], object], *, mark: str, title: str) -> str:
    """One pair of axes as inline SVG with a name that a screen reader speaks.

    Note: matplotlib reads its settings from one global table. It is changed while the drawing
    is made and put back afterwards, so do not draw from two threads.
    """
    name = f'role="img" aria-labelledby="{mark}-title"'
    return _draw(
        paint, mark, (3.9, 2.6), name, f'<title id="{mark}-title">{escape(title)}</title>'
    )


def stroke(style: LineStyle) -> dict[str, Any]:
    """Arguments for ``Axes.plot`` that draw a line in this look."""
    return {
        "color": style.colour,
        "linestyle": (0, style.dash) if style.dash else "-",
        "marker": style.marker,
        "linewidth": 1.5,
        "markersize": 4.5,
    }


def _draw(
    paint: Callable[[Axes], object],
    mark: str,
    inches: tuple[float, float],
    name: str,
    head: str,
) -> str:
    with matplotlib.style.context(["default", _STYLE]):
        figure = Figure(figsize=inches, layout="constrained")
        paint(figure.subplots())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata=_NO_METADATA)
    width, height = (72 * side for side in inches)
    root = (
        f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {width:g} {height:g}" {name} '
        'stroke-linejoin="round">'
    )
    return _tidy(buffer.getvalue(), root + head, mark)


def _tidy(text: str, root: str, mark: str) -> str:
    """Turn a standalone SVG document into an element that disturbs nothing around it."""
    body = re.sub(r"^.*?<svg[^>]*>", "", text, count=1, flags=re.DOTALL)
    body = re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL)  # would style the whole page
    body = re.sub(r"font-family: [^;\"]*", f"font-family: {FONT}", body)
    body = body.replace("xlink:href", "href").replace(INK, "currentColor")
    body = re.sub(r'(?<= )(d|x|y|transform)="[^"]*"', _shorten, body)
    body = re.sub(r'((?:<use [^>]*?) style="([^"]*)"/>\s*)(?:<use [^>]*/>\s*)+', _hoist, body)
    return root + re.sub(r">\s+<", "><", _rename(body, mark)).strip()


def _shorten(attribute: re.Match[str]) -> str:
    """Round the coordinates of an attribute to a hundredth of a point."""
    text = re.sub(r"\d+\.\d+", lambda n: f"{round(float(n[0]), 2):g}", attribute[0])
    return " ".join(text.split())


def _hoist(run: re.Match[str]) -> str:
    """Say a style that a run of markers shares once, on a group around them."""
    style = f' style="{run[2]}"'
    if run[0].count(style) != run[0].count("<use "):
        return run[0]
    return f"<g{style}>{run[0].replace(style, '')}</g>"


def _rename(body: str, mark: str) -> str:
    """Number the ids that something refers to, after the mark, and drop the others."""
    used = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', body))
    names = {old: f"{mark}-{n}" for n, old in enumerate(used)}
    body = re.sub(r'(href="#|url\(#)([^")]+)', lambda m: m[1] + names[m[2]], body)
    return re.sub(
        r' id="([^"]+)"', lambda m: f' id="{names[m[1]]}"' if m[1] in names else "", body
    )


NAMED = 30
"""names up to which a grid says them"""
HEAD, FOOT, GAP = 40, 12, 2
"""points left of images, below them and between them"""
SHADES = LinearSegmentedColormap.from_list("shades", ["#f4f6f8", styles.BLUE, "#0b2540"])
VALUES = LinearSegmentedColormap.from_list("values", [styles.BLUE, "#c9b458", styles.VERMILION])
MOST_TICKS = 5
MANY = matplotlib.colormaps["tab10"]
"""colours of groups where they are too many for those of arms"""


def painted(drawing: Mapping[str, Any], title: str, mark: str, size: tuple[int, int]) -> str:
    """A drawing as an SVG element."""
    if drawing["kind"] == "images":
        return _images(drawing, title, mark, size)
    paint = PAINTED[drawing["kind"]]
    return panel(lambda axes: paint(axes, drawing), mark=mark, title=title)


def _images(drawing: Mapping[str, Any], title: str, mark: str, size: tuple[int, int]) -> str:
    (width, height), rows, captions = size, drawing["rows"], drawing["captions"]
    tall = drawing["tall"]
    wide = min(
        (width - HEAD - 6) / len(captions), (height - FOOT) / len(rows) / tall
    )  # of a column
    high = wide * tall
    parts = []
    for down, (name, images) in enumerate(rows.items()):
        middle = down * high + high / 2 + 3
        parts.append(_text(HEAD - 4.0, middle, name, "end", 9.0))
        parts += [
            f'<image x="{HEAD + n * wide:g}" y="{down * high:g}" width="{wide - GAP:g}" '
            f'height="{high - GAP:g}" style="image-rendering: pixelated" '
            f'href="data:image/png;base64,{image}"/>'
            for n, image in enumerate(images)
        ]
    below = len(rows) * high + 8
    letter = min(7.5, 1.6 * wide / max(len(caption) for caption in captions))
    parts += [
        _text(HEAD + (n + 0.5) * wide - GAP / 2, below, caption, "middle", letter)
        for n, caption in enumerate(captions)
    ]
    return (
        f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-labelledby="{mark}-title"><title id="{mark}-title">{escape(title)}</title>'
        f"{''.join(parts)}</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str, size: float) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size:g}" '
        f'font-family="{FONT}">{escape(text)}</text>'
    )


def _grid(axes: Axes, drawing: Mapping[str, Any]) -> None:
    values, names = np.array(drawing["values"], dtype=np.float64), drawing["names"]
    axes.grid(visible=False)
    shown = axes.imshow(values, cmap=SHADES, interpolation="nearest")
    _bar(axes, shown, drawing["label"])
    axes.set(xlabel=_plain(drawing["columns"]), ylabel=_plain(drawing["rows"]))
    places = range(len(names)) if len(names) <= NAMED else ()
    said = [_plain(names[n]) for n in places]
    axes.set_xticks(list(places), said, rotation=90, fontsize=7)
    axes.set_yticks(list(places), said, fontsize=7)
    axes.tick_params(length=0)


def _scatter(axes: Axes, drawing: Mapping[str, Any]) -> None:
    x, y = (np.array(drawing[side], dtype=np.float64) for side in ("x", "y"))
    colours = drawing["colours"]
    labels = [_plain(label) for label in drawing["labels"]]
    axes.set(xlabel=labels[0], ylabel=labels[1])
    axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS))
    if colours and isinstance(colours[0], str):
        _grouped(axes, x, y, colours, drawing["colour"])
        return
    values = np.array(colours, dtype=np.float64)
    shown = axes.scatter(x, y, c=values, cmap=VALUES, s=7, linewidths=0)
    _bar(axes, shown, drawing["colour"])


def _grouped(axes: Axes, x: np.ndarray, y: np.ndarray, groups: list[str], colour: str) -> None:
    names = sorted(set(groups))
    for place, name in enumerate(names):
        kept = np.array([one == name for one in groups])
        style = styles.ARMS[place % len(styles.ARMS)]
        axes.scatter(
            x[kept],
            y[kept],
            color=MANY(place % MANY.N) if len(names) > len(styles.ARMS) else style.colour,
            marker=style.marker,
            s=8,
            linewidths=0,
            label=_plain(name),
        )
    axes.legend(
        title=_plain(colour),
        fontsize=7,
        title_fontsize=7.5,
        frameon=False,
        loc="center left",
        bbox_to_anchor=(1, 0.5),
    )


def _bar(axes: Axes, shown: ScalarMappable, label: str) -> None:
    bar = axes.figure.colorbar(shown, ax=axes, fraction=0.05, pad=0.02)
    bar.set_label(_plain(label))
    bar.ax.grid(visible=False)
    bar.ax.tick_params(labelsize=7)


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # else taken for mathematics


PAINTED: dict[str, Callable[[Axes, Mapping[str, Any]], None]] = {
    "grid": _grid,
    "scatter": _scatter,
}
"""how each kind is painted in a pair of axes"""
