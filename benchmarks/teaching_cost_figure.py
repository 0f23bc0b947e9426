"""The figure of accuracy against time of ``benchmarks.teaching_cost``, from stored figures.

python -m benchmarks.teaching_cost_figure
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import altair as alt
import numpy as np

from benchmarks.command import Row
from papers.framework.figure import line_plot
from tutelage.storage.atomic_files import write_atomically
from tutelage_cli.report import styles
from tutelage_cli.report.interactive import svg
from tutelage_cli.report.plots import Line, Track

STORED = Path(__file__).parents[1] / "results" / "performance" / "teaching_cost-cpu.json"
FIGURE = STORED.with_name("teaching_cost.svg")


def stored_rows() -> list[Row]:
    """What ``benchmarks.teaching_cost`` measured."""
    return json.loads(STORED.read_text("utf-8"))["results"]


def drawn(rows: Sequence[Row]) -> str:
    """Mean, lowest and highest accuracy of every way over its mean time, a line for a case."""
    cases = list(dict.fromkeys(row["case"] for row in rows))
    looks = styles.arm_styles(cases)
    lines = [Line(case, looks[case], _track(rows, case)) for case in cases]
    scale = alt.Scale(domainMin=1, nice=False)
    x = alt.X("x:Q", title="time, untaught = 1", axis=alt.Axis(format=".1f"), scale=scale)
    chart = line_plot(lines, x, "test accuracy, %", size=(420, 260), tint=styles.TINT / 2)
    return svg(alt.concat(chart), "Test accuracy of untaught and taught students over time")


def _track(rows: Sequence[Row], case: str) -> Track:
    ways = list(dict.fromkeys(row["variant"] for row in rows))
    of = [[row for row in rows if (row["case"], row["variant"]) == (case, way)] for way in ways]
    of.sort(key=lambda own: fmean(row["time"] for row in own))
    shares = [[100 * row["accuracy"] for row in own] for own in of]
    times = [fmean(row["time"] for row in own) for own in of]
    ends = (np.array([end(own) for own in shares]) for end in (fmean, min, max))
    return Track(np.array(times), *ends)


def main() -> None:
    """Draw the stored figures."""
    write_atomically(FIGURE, drawn(stored_rows()).encode())


if __name__ == "__main__":
    main()
