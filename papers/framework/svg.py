"""A matplotlib drawing as SVG that can stand inside a page, in any colour scheme."""

import io
import re
from collections.abc import Callable
from html import escape
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tutelage_cli.report.styles import FONT, INK, Look

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


def stroke(look: Look) -> dict[str, Any]:
    """Arguments for ``Axes.plot`` that draw a line in this look."""
    return {
        "color": look.colour,
        "linestyle": (0, look.dash) if look.dash else "-",
        "marker": look.marker,
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
        r' id="([^"]+)"',
        lambda m: f' id="{names[m[1]]}"' if m[1] in names else "",
        body,
    )
