"""How costs grow: a table and a figure of the page on performance, by a stored run."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import altair as alt
import numpy as np

from papers.framework.figure import COLUMNS, line_plot
from tests.docs.measured import ROOT, content
from tutelage_cli.report import styles
from tutelage_cli.report.interactive import Chart, svg
from tutelage_cli.report.plots import Line, Track

Row = Mapping[str, Any]
SAME = 1.15
"""what a ratio must exceed to count, as on the whole page"""
FIGURE = ROOT / "results" / "performance" / "growth.svg"
PLOTS = {
    "Batch, models, copies": ("batch size", "student", "teacher", "copies, WorstCase"),
    "Steps of the window": ("window, ",),
    "Examples": ("examples, ",),
    "Classes": ("classes, ",),
}
"""by title, what the names of its lines begin with"""


def lines() -> dict[str, list[Row]]:
    """The points of each line."""
    rows = content(ROOT / "results" / "performance" / "growth-cpu.json")["results"]
    return {name: list(points) for name, points in groupby(rows, lambda row: row["case"])}


def table() -> str:
    found = [
        "| line | points: time | exponent at the end | growth of time | n |",
        "|---|---|---|---|---|",
    ]
    for name, points in lines().items():
        times = ", ".join(f"{row['place']:,}: {_number(row['time'])}" for row in points)
        last = points[-1]
        cells = (
            _titled(name),
            f"{times} {last['axis']}",
            f"{last['exponent']:.2f}",
            growth(points),
            f"{last['n']}",
        )
        found.append(f"| {' | '.join(cells)} |")
    return "\n".join(found)


def growth(points: Sequence[Row]) -> str:
    """From where on a line grows in proportion to its axis, and from where on faster."""
    times = [row["time"] for row in points]
    each = [row["time"] / row["place"] for row in points]
    least = each.index(min(each))
    if max(each[least:]) > SAME * each[least]:
        return f"more than in proportion from {points[least]['place']:,} on"
    linear = len(each) - 1
    while linear and max(each[linear - 1 :]) <= SAME * min(each[linear - 1 :]):
        linear -= 1
    if linear == len(each) - 1:
        return "none" if max(times) <= SAME * min(times) else "less than in proportion"
    place = f" from {points[linear]['place']:,} on" if linear else ""
    return f"in proportion{place}"


def figure() -> str:
    """All lines over their axes, each relative to its first point, as an SVG document."""
    drawn = [_plot(title, starts) for title, starts in PLOTS.items()]
    beside = alt.concat(*drawn, columns=COLUMNS).resolve_scale(
        color="independent", fill="independent", shape="independent", strokeDash="independent"
    )
    return svg(beside, "Cost relative to the first point of each line; dotted: in proportion")


def _plot(title: str, starts: Sequence[str]) -> Chart:
    shown = {
        name.partition(", ")[2] if len(starts) == 1 else name: points
        for name, points in lines().items()
        if name.startswith(tuple(starts))
    }
    looks = styles.arm_styles(list(shown))
    tracks = [Line(name, looks[name], _track(points)) for name, points in shown.items()]
    most = max(float(one.track.epochs[-1]) for one in tracks)
    x = alt.X("x:Q", title="size, first point = 1", scale=_log((1, most)), axis=_axis())
    top = max(float(one.track.high.max()) for one in tracks)
    y = alt.Y("low:Q", title="time, first point = 1", scale=_log((0.8, top)), axis=_axis())
    end = min(most, top)
    proportion = (
        alt
        .Chart(alt.InlineData(values=[{"x": 1, "low": 1}, {"x": end, "low": end}]))
        .mark_line(strokeDash=[2, 2], strokeWidth=1, color=styles.INK, aria=False)
        .encode(x, y)
    )
    return alt.layer(proportion, line_plot(tracks, x, y)).properties(title=title)


def _track(points: Sequence[Row]) -> Track:
    columns = [
        (row["place"] / points[0]["place"], row["time"], *row["quartiles"]) for row in points
    ]
    place, middle, low, high = np.array(columns).T
    return Track(place, middle, low, high)


def _log(domain: tuple[float, float]) -> alt.Scale:
    return alt.Scale(type="log", domain=domain, nice=False)


def _axis() -> alt.Axis:
    return alt.Axis(values=[1, 3, 10, 30, 100, 300, 1000], format="~r")


def _number(time: float) -> str:
    return f"{time:.2f}" if time < 10 else f"{time:.1f}" if time < 100 else f"{time:.0f}"


def _titled(name: str) -> str:
    return name.replace("window, ", "window: ")
