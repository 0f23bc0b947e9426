"""Cells of ``papers pays`` compared: as a table, and as curves over checked labels."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import altair as alt
from rich.console import Console
from rich.table import Table

from papers.framework.figure import line_plot
from papers.pays.cells import CELLS, LEARNED
from tutelage.storage.atomic_files import write_atomically
from tutelage_cli.intervals import Interval, mean_interval
from tutelage_cli.report import styles
from tutelage_cli.report.interactive import svg
from tutelage_cli.report.plots import Line, over_seeds
from tutelage_cli.report.styles import TINT
from tutelage_cli.train.names import CONTROLS

OURS, UNTAUGHT, TEACHER = "cross-fitted", "untaught", LEARNED[0]
OTHERS = (UNTAUGHT, *(name for name in CONTROLS if name != OURS))
"""what a user can do without any part of this project"""
Arms = Mapping[str, Sequence[Mapping[str, Any]]]
"""results by seed"""
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


class CellComparison(NamedTuple):
    """What one cell shows."""

    name: str
    seeds: int
    means: Mapping[str, float]
    """test accuracy in percent, by arm"""
    control: str
    """the best of ``OTHERS``"""
    ours: Interval
    """cross-fitting less that"""
    rival: str
    """the best of everything without a learned teacher"""
    taught: Mapping[str, Interval]
    """each learned teacher less that"""
    teacher: Interval | None
    """the teacher of ``LEARNED`` that needs no cross-fitting less ``control``"""


def compare_arms(name: str, arms: Arms) -> CellComparison:
    """Compare the arms of a cell; the best are chosen by test accuracy, which favours them."""
    accuracy = accuracies(arms)
    means = {arm: fmean(found) for arm, found in accuracy.items()}
    control = max((arm for arm in OTHERS if arm in means), key=means.__getitem__)
    rival = max((control, OURS), key=means.__getitem__)
    return CellComparison(
        name,
        len(accuracy[OURS]),
        means,
        control,
        _difference(accuracy[OURS], accuracy[control]),
        rival,
        {
            arm: _difference(accuracy[arm], accuracy[rival])
            for arm in LEARNED
            if arm in accuracy
        },
        _difference(accuracy[TEACHER], accuracy[control]) if TEACHER in accuracy else None,
    )


def accuracies(arms: Arms) -> dict[str, list[float]]:
    """Test accuracy in percent, by arm and seed."""
    return {arm: [100 * one["test_accuracy"] for one in found] for arm, found in arms.items()}


def _difference(one: Sequence[float], other: Sequence[float]) -> Interval:
    return mean_interval([a - b for a, b in zip(one, other, strict=True)])


def contents(out: Path) -> dict[str, dict[str, Any]]:
    """The files of all cells that have run, by name in the order of ``CELLS``."""
    files = [out / "results" / "pays" / f"{cell.name}.json" for cell in CELLS]
    return {file.stem: json.loads(file.read_text("utf-8")) for file in files if file.exists()}


def stored(out: Path) -> list[CellComparison]:
    """The rows of all cells that have run, in the order of ``CELLS``."""
    return [compare_arms(name, one["arms"]) for name, one in contents(out).items()]


def print_table(console: Console, rows: Sequence[CellComparison]) -> None:
    """Print both comparisons of every cell."""
    table = Table("Cell", "Untaught", "Best control", "Cross-fitted", "less", *LEARNED)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.means[UNTAUGHT]:.1f}",
            f"{row.control} {row.means[row.control]:.1f}",
            f"{row.means[OURS]:.1f}",
            shown(row.ours),
            *(_taught(row, arm) for arm in LEARNED),
        )
    console.print(table)
    for line in counts(rows):
        console.print(line)


def _taught(row: CellComparison, arm: str) -> str:
    if arm not in row.taught:
        return ""
    return f"{row.means[arm]:.1f}, {shown(row.taught[arm])} of {row.rival}"


def counts(rows: Sequence[CellComparison]) -> list[str]:
    """How many cells each comparison decides, a sentence each."""
    found = {
        "Cross-fitting less the best control": [row.ours for row in rows],
        f"{TEACHER} less the best control": [row.teacher for row in rows if row.teacher],
    } | {
        f"{arm} less the best of all others": [
            row.taught[arm] for row in rows if arm in row.taught
        ]
        for arm in LEARNED
    }
    return [_counted(name, intervals) for name, intervals in found.items() if intervals]


def _counted(name: str, intervals: Sequence[Interval]) -> str:
    above, below = sum(i.above for i in intervals), sum(i.below for i in intervals)
    return (
        f"{name}: above in {above}, below in {below}, undecided in "
        f"{len(intervals) - above - below} of {len(intervals)} cells, by the 90% interval."
    )


def shown(interval: Interval) -> str:
    """A mean with its interval."""
    return f"{interval.mean:+.1f} ({interval.low:+.1f} to {interval.high:+.1f})"


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
