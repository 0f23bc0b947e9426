"""An Altair chart as HTML: a static picture, replaced by an interactive chart.

Both come from one Vega-Lite description. Vega draws the picture when the page is written; it is
what is printed and what a screen reader reads. Where scripts run, the Vega in the page draws
the chart again from the same description, with tooltips::

    html = drawing(
        alt.Chart(alt.NamedData("rows")).mark_bar().encode(x="a:O", y="b:Q", tooltip=["b:Q"]),
        mark="sizes",                       # begins every id; unique on the page
        title="Sizes. The largest is 2.",   # what the drawing shows, in words
        data={"rows": [{"a": 1, "b": 2}]},
        numbers=(("a", "b"), [("1", "2")]), # header and rows of the table under it
    )
    figure = elements.chart("Sizes", html)  # under its caption

``tutelage_cli.report.page.document`` adds the library, once, to a page with such a drawing.
"""

import base64
import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from types import MappingProxyType
from typing import Any

import altair as alt
import vl_convert

from tutelage_cli.report import elements
from tutelage_cli.report.styles import FONT, INK
from tutelage_cli.report.vega import vega_script

WIDTH, HEIGHT = 360, 240
"""default size of a chart with its axes, in pixels; it scales with the page"""
WIDE = 480
"""width in pixels from which a chart scrolls on a narrow screen instead of shrinking"""
MANY = 8
"""number of markers of one outline from which the outline is defined once"""
MEASURED = "Arial, 'Liberation Sans', sans-serif"
"""font of documents, of a width that Vega knows on every machine"""
HOVER = "hover"
"""name of the invisible layer that has the tooltips; removed from pictures"""

Chart = alt.Chart | alt.LayerChart | alt.FacetChart
Row = dict[str, Any]
Numbers = tuple[Sequence[str], Sequence[Sequence[str]]]
"""header and rows of a table"""

_CONFIG: dict[str, Any] = {
    "background": None,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": INK,
        "tickColor": INK,
        "gridColor": INK,
        "gridOpacity": 0.14,
        "domainOpacity": 0.6,
        "tickOpacity": 0.6,
        "labelFontSize": 11,
        "titleFontSize": 11.5,
        "titleFontWeight": "normal",
        "titlePadding": 6,
        "labelFlush": False,
        "labelLimit": 120,
    },
    "legend": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
    },
    "mark": {"tooltip": None},
}


def drawing(
    chart: Chart,
    *,
    mark: str,
    title: str,
    data: Mapping[str, Sequence[Row]] = MappingProxyType({}),
    numbers: Numbers | None = None,
) -> str:
    """A chart as a picture, with the description from which scripts draw it again."""
    plain: dict[str, Any] = {"width": WIDTH, "height": HEIGHT}
    plain |= chart.to_dict(validate=False)
    plain["datasets"] = {**plain.get("datasets", {}), **data}
    spec = _spec(plain | {"autosize": {"type": "fit", "contains": "padding"}}, title)
    picture = _picture(spec, mark, title)
    inside = f'<div class="still">{picture}</div><div class="live" hidden></div>'
    if plain["width"] >= WIDE:
        inside = (
            f'<div class="wide" role="region" tabindex="0" aria-label="{escape(title)}">'
            f"{inside}</div>"
        )
    safe = spec.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")
    return (
        f'<div class="drawing" id="{mark}">{inside}'
        f'<script type="application/json">{safe}</script></div>{_folded(numbers, title)}'
    )


def svg(chart: alt.ConcatChart, title: str) -> str:
    """Charts as an SVG document on white."""
    plain = chart.to_dict(validate=False) | {"background": "white"}
    spec = _spec(plain, title, font=MEASURED)
    body = _picture(spec, "chart", title)
    width, height = re.findall(r'viewBox="0 0 (\S+) (\S+)"', body)[0]
    size = f'<svg width="{width}" height="{height}" font-family="{MEASURED}"'
    return body.replace("<svg", size, 1).replace("xlink:href", "href")


def scripts(body: str) -> tuple[str, ...]:
    """The scripts of a page: tooltips of charts, and sorting of tables."""
    own = resources.files("tutelage_cli.report").joinpath("page.js").read_text("utf-8")
    return (vega_script(), own) if '<div class="drawing"' in body else (own,)


def digest(script: str) -> str:
    """The hash by which a Content-Security-Policy allows a script."""
    found = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(found).decode('ascii')}'"


def _picture(spec: str, mark: str, title: str) -> str:
    """A chart as an SVG element.

    Note: raises ``RuntimeError`` in a process forked from one that has drawn: it would hang.
    """
    _refuse_fork()
    return _tidy(vl_convert.vegalite_to_svg(spec), mark, title)


def _refuse_fork() -> None:
    if _home() != os.getpid():
        raise RuntimeError(
            "No chart can be drawn here: this process was forked from one that had drawn some, "
            "and what draws them does not survive that. Start it by spawn, or draw in the "
            "parent."
        )


@cache
def _home() -> int:
    return os.getpid()  # kept in a child, where it is no longer true


def _spec(chart: dict[str, Any], title: str, font: str = FONT) -> str:
    """The chart as the page and Vega read it."""
    plain = _finite(chart) | {"config": _CONFIG | {"font": font}, "description": title}
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace(INK, "currentColor").encode("utf-8", "replace").decode("utf-8")


def _finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by None."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _tidy(text: str, mark: str, title: str) -> str:
    """Remove invisible elements of a picture and add its title."""
    size = re.search(r'viewBox="[^"]*"', text)
    assert size is not None
    body = re.sub(r"^.*?<svg[^>]*>", "", text, count=1, flags=re.DOTALL)
    body = re.sub(rf'<g class="[^"]*\b{HOVER}_marks[^"]*"[^>]*>.*?</g>', "", body)
    body = re.sub(r'<path[^>]* display="none"/>', "", body)
    body = re.sub(
        r'<path class="background"[^>]* d="[^"]*"(?: pointer-events="none")?/>', "", body
    )
    body = re.sub(r'<text[^>]* opacity="0">[^<]*</text>', "", body)
    body = re.sub(r' (?:aria-[a-z]+|role|class|pointer-events|font-family)="[^"]*"', "", body)
    body = re.sub(r' stroke="[^"]*"(?=[^>]* stroke-width="0")', "", body)
    body = re.sub(r' (?:stroke-width="0"|font-weight="normal"|opacity="1")', "", body)
    body = body.replace(' transform="translate(0,0)"', "")
    body = re.sub(r' (?:d|transform|x2|y2)="[^"]*"', _shorten, body)
    while "<g></g>" in body:
        body = body.replace("<g></g>", "")
    body = _shared(body, mark)
    places: dict[str, int] = {}  # Vega counts on from one picture to the next
    body = re.sub(
        r'(\bid="|url\(#|href="#)((?:clip|gradient)_?\d+)',
        lambda found: f"{found[1]}{mark}-at{places.setdefault(found[2], len(places))}",
        body,
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size[0]} role="img" '
        f'aria-labelledby="{mark}-title"><title id="{mark}-title">{escape(title)}</title>{body}'
    )


def _shorten(attribute: re.Match[str]) -> str:
    return re.sub(r"\d+\.\d+", lambda n: f"{round(float(n[0]), 2):g}", attribute[0])


def _shared(body: str, mark: str) -> str:
    """Define an outline that many markers share once, and refer to it."""
    found = Counter(re.findall(r'<path[^>]* d="([^"]{40,})"', body))
    names = {d: f"{mark}-{n}" for n, d in enumerate(d for d, n in found.items() if n >= MANY)}
    for outline, name in names.items():
        body = re.sub(
            rf'<path([^>]*) d="{re.escape(outline)}"([^>]*)/>',
            rf'<use href="#{name}"\1\2/>',
            body,
        )
    defined = "".join(f'<path id="{name}" d="{outline}"/>' for outline, name in names.items())
    return f"<defs>{defined}</defs>{body}" if defined else body


def _folded(numbers: Numbers | None, title: str) -> str:
    if numbers is None:
        return ""
    caption = title.split(". ")[0].rstrip(".")
    table = elements.table(caption, *numbers, style="numbers")
    return f'<details class="numbers-of"><summary>Numbers</summary>{table}</details>'
