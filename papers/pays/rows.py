"""What the cells show: both comparisons of each, and how many are decided."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from papers.pays.cells import CELLS, LEARNED
from tutelage_cli.intervals import Interval, mean_interval
from tutelage_cli.train.names import CONTROLS

OURS, UNTAUGHT, TEACHER = "cross-fitted", "untaught", LEARNED[0]
OTHERS = (UNTAUGHT, *(name for name in CONTROLS if name != OURS))
"""what a user can do without any part of this project"""
Arms = Mapping[str, Sequence[Mapping[str, Any]]]
"""results by seed"""


class Row(NamedTuple):
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


def row_of(name: str, arms: Arms) -> Row:
    """Compare the arms of a cell; the best are chosen by test accuracy, which favours them."""
    accuracy = accuracies(arms)
    means = {arm: fmean(found) for arm, found in accuracy.items()}
    control = max((arm for arm in OTHERS if arm in means), key=means.__getitem__)
    rival = max((control, OURS), key=means.__getitem__)
    return Row(
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


def stored(out: Path) -> list[Row]:
    """The rows of all cells that have run, in the order of ``CELLS``."""
    return [row_of(name, one["arms"]) for name, one in contents(out).items()]


def print_table(console: Console, rows: Sequence[Row]) -> None:
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


def _taught(row: Row, arm: str) -> str:
    if arm not in row.taught:
        return ""
    return f"{row.means[arm]:.1f}, {shown(row.taught[arm])} of {row.rival}"


def counts(rows: Sequence[Row]) -> list[str]:
    """How many cells each comparison decides, a sentence each."""
    found = {
        "Cross-fitting less the best control": [row.ours for row in rows],
        f"{TEACHER} less the best control": [row.teacher for row in rows if row.teacher],
    } | {
        f"{arm} less the best of everything else": [
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
