"""The figure of a result: its plots in two columns, as one SVG file."""

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
LETTER, SYMBOL = 6, 40  # widths of a letter and of a marker in a legend, pixels
GAP = 20  # between the columns of a legend, pixels
TITLE = 40  # letters in a line of a title
NAMED = 30  # most names that are written beside a grid
SHADES = ["#f4f6f8", BLUE, "#0b2540"]
VALUES = [BLUE, "#c9b458", VERMILION]


def write_figure(content: Mapping[str, Any], file: Path) -> None:
    """Write the figure of a result."""
    write_atomically(file, figure(content).encode())


def figure(content: Mapping[str, Any]) -> str:
    """The figure as text; equal results have equal figures."""
    charts, descriptions = zip(
        *(_draw(plot, content) for plot in content["plots"]), strict=True
    )
    whole = alt.concat(*charts, columns=COLUMNS).resolve_scale(
        color="independent", fill="independent", shape="independent", strokeDash="independent"
    )
    return svg(whole, " ".join(descriptions))


def _draw(plot: Mapping[str, Any], content: Mapping[str, Any]) -> tuple[Chart, str]:
    # a plot, and its description for screen readers
    title = plot["title"]
    if "lines" in plot:
        lines = _lines(plot["lines"], content.get("series", {}))
        positions = sorted({float(x) for line in lines for x in line.track.epochs})
        chart = line_plot(lines, x_axis(plot["across"], positions), plot["label"])
        last = "; ".join(f"{line.name}: {number(float(line.track.mean[-1]))}" for line in lines)
        description = f"{title}. At the end {last or 'nothing'}."
    else:
        drawing = content.get("drawings", {}).get(plot["arm"], {}).get(plot["drawing"])
        # there is no drawing if every job of the arm failed
        chart = DRAW[drawing["kind"]](drawing) if drawing else alt.Chart(_data([])).mark_point()
        description = f"{title}."
    return chart.properties(title=alt.Title(textwrap.wrap(title, TITLE))), description


def _lines(plotted: Mapping[str, Sequence[str]], series: Mapping[str, Any]) -> list[Line]:
    lines, line_styles = [], styles.arm_styles(list(plotted))
    for name, (arm, quantity) in plotted.items():
        seeds = series.get(arm, {}).get(quantity, [])
        columns: dict[int, list[float]] = {}
        for values in filter(None, seeds):
            for position, value in enumerate(values, 1):
                if value is not None:  # not finite in this seed
                    columns.setdefault(position, []).append(value)
        if columns:
            lines.append(Line(name, line_styles[name], over_seeds(columns)))
    return lines


def line_plot(
    lines: Sequence[Line],
    x: alt.X,
    label: str | alt.Y,
    *,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    tint: float = TINT,
    **legend: Any,
) -> Chart:
    """Lines of means with bands of the range over seeds, and a legend below."""
    rows, names = line_rows(lines), [line.name for line in lines]
    kinds = Channels(lines, _legend(names, symbolSize=60, **legend))
    linear = alt.Scale(zero=False)
    y = alt.Y("low:Q", title=label, scale=linear) if isinstance(label, str) else label
    layers = line_layers(kinds, x, y, tint=tint)
    return alt.layer(*layers, data=_data(rows), width=size[0], height=size[1])


def _legend(names: Sequence[str], **settings: Any) -> alt.Legend | None:
    if not names:
        return None  # without names Vega draws a legend of infinite size
    width = SYMBOL + LETTER * max(map(len, names))
    return alt.Legend(
        **{"title": None, "orient": "bottom", "columns": max(1, (WIDTH + 40) // width)}
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
    width = WIDTH // len(captions)
    height = round(width * drawing["tall"])
    rows = [
        {"x": x, "y": y, "url": f"data:image/png;base64,{image}"}
        for y, name in enumerate(names)
        for x, image in enumerate(drawing["rows"][name])
    ]
    chart = alt.Chart(_data(rows), width=width * len(captions), height=height * len(names))
    image = chart.mark_image(width=width - 2, height=height - 2, aspect=False, smooth=False)
    return image.encode(
        alt.X("x:O", title=None, axis=_axis(captions, float(width))),
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
            alt.Color(
                "value:Q", title=drawing["label"], scale=_shades(SHADES), legend=_colour_bar()
            ),
        )
    )


def _scatter(drawing: Mapping[str, Any]) -> alt.Chart:
    colours, title = drawing["colours"], drawing["colour"]
    groups = sorted({c for c in colours if isinstance(c, str)})
    kinds = [Kind(name, style) for name, style in styles.arm_styles(groups).items()]
    channels = Channels(kinds, _legend(groups, title=title, orient="right", columns=1))
    encodings = [channels.fill, channels.shape]
    if not groups:
        encodings = [alt.Fill("of:Q", title=title, scale=_shades(VALUES), legend=_colour_bar())]
    keys = [str(groups.index(c)) for c in colours] if groups else colours
    points = zip(drawing["x"], drawing["y"], keys, strict=True)
    rows = [{"x": x, "y": y, "of": c} for x, y, c in points]
    x_label, y_label = drawing["labels"]
    chart = alt.Chart(_data(rows), width=WIDTH - 40, height=HEIGHT)
    return chart.mark_point(size=16, strokeWidth=0, opacity=1, aria=False).encode(
        alt.X("x:Q", title=x_label, axis=alt.Axis(tickCount=5), scale=alt.Scale(zero=False)),
        alt.Y("y:Q", title=y_label, scale=alt.Scale(zero=False)),
        *encodings,
    )


def _colour_bar() -> alt.Legend:
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
    return f"{json.dumps(names)}[datum.value]"  # the data have numbers: names may repeat


def _data(rows: Sequence[Row]) -> alt.InlineData:
    return alt.InlineData(values=rows)


DRAW = {"images": _images, "grid": _grid, "scatter": _scatter}
"""by the kind of a drawing, see ``papers.framework.drawings``"""
