"""The figure of a result: its plots, two beside one another, as one SVG file."""

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt

from papers.framework.page import number
from tutelage.storage.atomic_files import write_atomically
from tutelage_cli.report import styles
from tutelage_cli.report.channels import Channels, Kind, x_axis
from tutelage_cli.report.interactive import Chart, Row, svg
from tutelage_cli.report.plots import Line, line_layers, line_rows, over_seeds
from tutelage_cli.report.styles import BLUE, TINT, VERMILION

COLUMNS = 2  # plots side by side
WIDTH, HEIGHT = 300, 200  # of a plotting area, pixels
LETTER, SYMBOL = 6, 40  # widths in a legend: a letter, a marker with its gaps; pixels
GAP = 20  # between the columns of a legend, pixels
TITLE = 40  # letters in a line of a title
NAMED = 30  # names up to which a grid shows them
SHADES = ["#f4f6f8", BLUE, "#0b2540"]
VALUES = [BLUE, "#c9b458", VERMILION]


def write_figure(content: Mapping[str, Any], file: Path) -> None:
    """Draw the plots of a result that have something to show."""
    write_atomically(file, figure(content).encode())


def figure(content: Mapping[str, Any]) -> str:
    """The figure as text; the same for the same result."""
    drawn, said = zip(*(_draw(plot, content) for plot in content["plots"]), strict=True)
    beside = alt.concat(*drawn, columns=COLUMNS).resolve_scale(
        color="independent", fill="independent", shape="independent", strokeDash="independent"
    )
    return svg(beside, " ".join(said))


def _draw(plot: Mapping[str, Any], content: Mapping[str, Any]) -> tuple[Chart, str]:
    # a plot, and its description for who cannot see it
    title = plot["title"]
    if "lines" in plot:
        lines = _lines(plot["lines"], content["series"])
        places = sorted({float(place) for line in lines for place in line.track.epochs})
        drawn = line_plot(lines, x_axis(plot["across"], places), plot["label"])
        last = "; ".join(f"{line.name}: {number(float(line.track.mean[-1]))}" for line in lines)
        said = f"{title}. At the end {last or 'nothing'}."
    else:
        drawing = content["drawings"].get(plot["arm"], {}).get(plot["drawing"])
        # none where every job of the arm failed
        drawn = DRAW[drawing["kind"]](drawing) if drawing else alt.Chart(_data([])).mark_point()
        said = f"{title}."
    return drawn.properties(title=alt.Title(textwrap.wrap(title, TITLE))), said


def _lines(plotted: Mapping[str, Sequence[str]], series: Mapping[str, Any]) -> list[Line]:
    found, looks = [], styles.arm_styles(list(plotted))
    for name, (arm, quantity) in plotted.items():
        seeds = series.get(arm, {}).get(quantity, [])
        columns: dict[int, list[float]] = {}
        for values in filter(None, seeds):
            for place, value in enumerate(values, 1):
                if value is not None:  # a seed that diverged is left out
                    columns.setdefault(place, []).append(value)
        if columns:
            found.append(Line(name, looks[name], over_seeds(columns)))
    return found


def line_plot(
    lines: Sequence[Line],
    x: alt.X,
    label: str | alt.Y,
    *,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    tint: float = TINT,
    **legend: Any,
) -> Chart:
    """Lines with the band of their seeds, and a legend under them."""
    rows, names = line_rows(lines), [line.name for line in lines]
    kinds = Channels(lines, _legend(names, symbolSize=60, **legend))
    linear = alt.Scale(zero=False)
    y = alt.Y("low:Q", title=label, scale=linear) if isinstance(label, str) else label
    layers = line_layers(kinds, x, y, tint=tint)
    return alt.layer(*layers, data=_data(rows), width=size[0], height=size[1])


def _legend(names: Sequence[str], **settings: Any) -> alt.Legend | None:
    if not names:
        return None  # Vega would draw an infinite one
    wide = SYMBOL + LETTER * max(map(len, names))
    return alt.Legend(
        **{"title": None, "orient": "bottom", "columns": max(1, (WIDTH + 40) // wide)}
        | settings,
        labelExpr=_named(names),
        labelLimit=0,
        columnPadding=GAP,
        offset=6,
        symbolOpacity=1,
        symbolStrokeWidth=0,
    )


def _images(drawing: Mapping[str, Any]) -> alt.Chart:
    captions, names = drawing["captions"], list(drawing["rows"])
    side = WIDTH // len(captions)
    tall = round(side * drawing["tall"])
    rows = [
        {"x": x, "y": y, "url": f"data:image/png;base64,{image}"}
        for y, name in enumerate(names)
        for x, image in enumerate(drawing["rows"][name])
    ]
    chart = alt.Chart(_data(rows), width=side * len(captions), height=tall * len(names))
    image = chart.mark_image(width=side - 2, height=tall - 2, aspect=False, smooth=False)
    return image.encode(
        alt.X("x:O", title=None, axis=_axis(captions, float(side))),
        alt.Y("y:O", title=None, axis=_axis(names)),
        url="url:N",
    )


def _grid(drawing: Mapping[str, Any]) -> alt.Chart:
    names = drawing["names"]
    values = enumerate(drawing["values"])
    rows = [{"x": x, "y": y, "value": v} for y, line in values for x, v in enumerate(line)]
    return (
        alt
        .Chart(_data(rows), width=HEIGHT, height=HEIGHT)
        .mark_rect()
        .encode(
            alt.X("x:O", title=drawing["columns"], axis=_axis(names, HEIGHT / len(names))),
            alt.Y("y:O", title=drawing["rows"], axis=_axis(names)),
            alt.Color("value:Q", title=drawing["label"], scale=_shades(SHADES), legend=_bar()),
        )
    )


def _scatter(drawing: Mapping[str, Any]) -> alt.Chart:
    colours, title = drawing["colours"], drawing["colour"]
    groups = sorted({c for c in colours if isinstance(c, str)})
    kinds = [Kind(name, style) for name, style in styles.arm_styles(groups).items()]
    channels = Channels(kinds, _legend(groups, title=title, orient="right", columns=1))
    look = [channels.fill, channels.shape]
    if not groups:
        look = [alt.Fill("of:Q", title=title, scale=_shades(VALUES), legend=_bar())]
    keys = [str(groups.index(c)) for c in colours] if groups else colours
    points = zip(drawing["x"], drawing["y"], keys, strict=True)
    rows = [{"x": x, "y": y, "of": c} for x, y, c in points]
    across, up = drawing["labels"]
    chart = alt.Chart(_data(rows), width=WIDTH - 40, height=HEIGHT)
    return chart.mark_point(size=16, strokeWidth=0, opacity=1, aria=False).encode(
        alt.X("x:Q", title=across, axis=alt.Axis(tickCount=5), scale=alt.Scale(zero=False)),
        alt.Y("y:Q", title=up, scale=alt.Scale(zero=False)),
        *look,
    )


def _bar() -> alt.Legend:
    return alt.Legend(
        gradientLength=HEIGHT - 40, titleOrient="right", titleLimit=0, tickCount=5
    )


def _shades(colours: Sequence[str]) -> alt.Scale:
    return alt.Scale(range=list(colours), interpolate="rgb", nice=False, zero=False)


def _axis(names: Sequence[str], step: float = math.inf) -> alt.Axis:
    crowded = LETTER * max(map(len, names), default=0) > step
    return alt.Axis(
        labels=len(names) <= NAMED,
        labelExpr=_named(names),
        labelAngle=-90 if crowded else 0,
        labelOverlap=False,
        grid=False,
        ticks=False,
        domain=False,
    )


def _named(names: Sequence[str]) -> str:
    return f"{json.dumps(names)}[datum.value]"  # names may repeat, numbers do not


def _data(rows: Sequence[Row]) -> alt.InlineData:
    return alt.InlineData(values=rows)


DRAW = {"images": _images, "grid": _grid, "scatter": _scatter}
"""by the kind of a drawing, see ``papers.framework.drawings``"""
