"""Test accuracy over the number of checked labels, for each data set with several."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import altair as alt

from papers.framework.figure import line_plot
from papers.pays.cells import CELLS, LEARNED
from papers.pays.rows import OURS, UNTAUGHT, accuracies, contents
from tutelage.storage.atomic_files import write_atomically
from tutelage_cli.report import styles
from tutelage_cli.report.interactive import svg
from tutelage_cli.report.plots import Line, over_seeds
from tutelage_cli.report.styles import TINT

SHOWN = (
    UNTAUGHT,
    OURS,
    *LEARNED,
    "regularised",
    "pruned",
    "forward-corrected",
    "checked-only",
    "fine-tuned",
)
"""colours repeat after the fifth, with other markers and dashes"""
LEAST = 3
"""numbers of checked labels that make a curve"""
Points = Mapping[str, Mapping[int, Sequence[float]]]
"""accuracies of seeds, by arm and number of checked labels"""


def curves(out: Path) -> dict[str, Points]:
    """What has run of each data set with its noise that has a curve."""
    found, named = contents(out), {cell.name: cell for cell in CELLS}
    by_data: dict[str, dict[str, dict[int, Sequence[float]]]] = {}
    for name, content in found.items():
        data = name.removesuffix(f"-{named[name].checked}{named[name].kind}")
        points = by_data.setdefault(data + named[name].kind, {arm: {} for arm in SHOWN})
        for arm, values in accuracies(content["arms"]).items():
            if arm in SHOWN:
                points[arm][named[name].checked] = values
    return {data: arms for data, arms in by_data.items() if len(arms[UNTAUGHT]) >= LEAST}


def write_curves(out: Path) -> None:
    """Draw every curve beside the results of its cells."""
    for data, points in curves(out).items():
        file = out / "results" / "pays" / f"{data}.svg"
        write_atomically(file, drawn(data, points).encode())


def drawn(data: str, points: Points) -> str:
    """A curve as an SVG document."""
    looks = styles.arm_styles(SHOWN)
    lines = [
        Line(arm, looks[arm], over_seeds(points[arm])) for arm in filter(points.get, SHOWN)
    ]
    lines.sort(key=lambda line: -line.track.mean[-1])  # as they end at the right
    counts = sorted(points[UNTAUGHT])
    x = alt.X(
        "x:Q",
        title="checked labels",
        axis=alt.Axis(values=counts, format="d"),
        scale=alt.Scale(type="log", domain=(counts[0], counts[-1]), nice=False),
    )
    right = {"orient": "right", "columns": 1}
    chart = line_plot(lines, x, "test accuracy, %", size=(420, 300), tint=TINT / 2, **right)
    return svg(alt.concat(chart), f"Test accuracy over the number of checked labels, {data}")
