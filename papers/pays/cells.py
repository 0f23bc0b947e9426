"""Whether teaching pays: taught students and controls over data sets, noise and checked labels.

Every cell is one run of ``tutelage train``, with its defaults but for data, noise and the
number of checked examples. Two questions are answered by the 90% interval of differences
paired by seed: cross-fitting against the best control that needs no part of this project, and
the learned teacher against the best of everything else.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from tutelage.errors import UsageError, nearest
from tutelage.storage.json_files import write_json
from tutelage_cli.intervals import Interval, mean_interval
from tutelage_cli.train.names import CONTROLS

TAUGHT, OURS, UNTAUGHT = "margin-loss", "cross-fitted", "untaught"
OTHERS = (UNTAUGHT, *(name for name in CONTROLS if name != OURS))
"""what a user can do without any part of this project"""
FROZEN = ("--student", "efficientnet-lite0", "--freeze", "--limit", "11900")


class Cell(NamedTuple):
    """A data set with its noise, and how many checked examples there are."""

    data: str
    """mnist5k, or a folder below TUTELAGE_DATA"""
    noise: str
    checked: int
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.data}-{self.noise.replace(':', '')}-{self.checked}"

    @property
    def words(self) -> list[str]:
        """The words of ``tutelage train``."""
        data = self.data
        if data != "mnist5k":
            data = str(Path(os.environ.get("TUTELAGE_DATA", "")) / data)
        flags = ["--noise", self.noise, "--held-out", str(self.checked), *self.flags]
        return [data, *flags, "--teacher", TAUGHT]


CELLS = (
    *(Cell("mnist5k", "flip2:0.4", checked) for checked in (20, 100, 500)),
    *(Cell("cifar10", "human:worst", checked, FROZEN) for checked in (20, 100, 500)),
    *(Cell("cifar10", "flip2:0.4", checked, FROZEN) for checked in (20, 100, 500)),
    *(Cell("cifar10", "human:random1", checked, FROZEN) for checked in (20, 100)),
    *(Cell("pneumoniamnist", "flip:0.3", checked) for checked in (20, 100)),
)


def run_cells(names: Sequence[str], seeds: int, jobs: int | None, out: Path) -> list[Path]:
    """Run cells, or what is missing of them."""
    known = {cell.name: cell for cell in CELLS}
    for name in names:
        if name not in known:
            raise UsageError(f"Unknown cell '{name}'. {nearest(name, known)}")
    return [_run(known[name], seeds, jobs, out) for name in names or known]


def _run(cell: Cell, seeds: int, jobs: int | None, out: Path) -> Path:
    if cell.data != "mnist5k" and not os.environ.get("TUTELAGE_DATA"):
        raise UsageError(
            f"{cell.name} needs {cell.data}: set TUTELAGE_DATA to a folder of data sets, or "
            "name cells of mnist5k."
        )
    run, file = (
        out / "runs" / "pays" / cell.name,
        out / "results" / "pays" / f"{cell.name}.json",
    )
    if not (run / "summary.json").exists():
        words = [*cell.words, "--seeds", str(seeds), "--out", str(run)]
        words = ["--resume", str(run)] if (run / "settings.json").exists() else words
        words += [] if jobs is None or "--resume" in words else ["--jobs", str(jobs)]
        command = [sys.executable, "-m", "tutelage_cli", "train", *words]
        if subprocess.run(command, check=False).returncode:
            raise UsageError(f"{cell.name} did not end; its run is {run}.")
    arms = json.loads((run / "summary.json").read_text("utf-8"))["arms"]
    kept = {
        arm: [{key: one[key] for key in ("seed", "test_accuracy", "ratio")} for one in results]
        for arm, results in arms.items()
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, {**cell._asdict(), "arms": kept})
    return file


class Row(NamedTuple):
    """What one cell shows."""

    name: str
    means: Mapping[str, float]
    """test accuracy in percent, by arm"""
    control: str
    """the best of ``OTHERS``"""
    ours: Interval
    """cross-fitting less that"""
    rival: str
    """the best of everything but the learned teacher"""
    taught: Interval
    """the learned teacher less that"""


def row_of(name: str, arms: Mapping[str, Sequence[Mapping[str, Any]]]) -> Row:
    """Compare the arms of a cell; the best are chosen by test accuracy, which favours them."""
    accuracy = {
        arm: [100 * one["test_accuracy"] for one in found] for arm, found in arms.items()
    }
    means = {arm: fmean(found) for arm, found in accuracy.items()}
    control = max((arm for arm in OTHERS if arm in means), key=means.__getitem__)
    rival = max((control, OURS), key=means.__getitem__)
    return Row(
        name,
        means,
        control,
        _difference(accuracy[OURS], accuracy[control]),
        rival,
        _difference(accuracy[TAUGHT], accuracy[rival]),
    )


def _difference(one: Sequence[float], other: Sequence[float]) -> Interval:
    return mean_interval([a - b for a, b in zip(one, other, strict=True)])


def stored(out: Path) -> list[Row]:
    """The rows of all cells that have run, in the order of ``CELLS``."""
    files = [out / "results" / "pays" / f"{cell.name}.json" for cell in CELLS]
    found = [json.loads(file.read_text("utf-8")) for file in files if file.exists()]
    names = [file.stem for file in files if file.exists()]
    return [row_of(name, one["arms"]) for name, one in zip(names, found, strict=True)]


def print_table(console: Console, rows: Sequence[Row]) -> None:
    """Print both comparisons of every cell."""
    table = Table("Cell", "Untaught", "Best control", "Cross-fitted", "less", "Taught", "less")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.means[UNTAUGHT]:.1f}",
            f"{row.control} {row.means[row.control]:.1f}",
            f"{row.means[OURS]:.1f}",
            shown(row.ours),
            f"{row.means[TAUGHT]:.1f}",
            f"{shown(row.taught)} ({row.rival})",
        )
    console.print(table)
    for name, found in (("Cross-fitting", "ours"), ("The learned teacher", "taught")):
        intervals = [getattr(row, found) for row in rows]
        above, below = sum(i.above for i in intervals), sum(i.below for i in intervals)
        console.print(
            f"{name}: above in {above}, below in {below}, undecided in "
            f"{len(rows) - above - below} of {len(rows)} cells, by the 90% interval."
        )


def shown(interval: Interval) -> str:
    """A mean with its interval."""
    return f"{interval.mean:+.1f} ({interval.low:+.1f} to {interval.high:+.1f})"
