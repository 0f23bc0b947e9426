"""Progress of the students in training: bars on a terminal, lines in a pipe."""

import contextlib
import json
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from tutelage_cli.terminal import clock, listed, roughly, say, showing
from tutelage_cli.train.job import Job
from tutelage_cli.train.step_seconds import Work
from tutelage_cli.train.time_left import TRUSTED, TimeLeft

POLL_EVERY = 0.25
"""seconds between two reads of the students' folders"""
REPORT_EVERY = 30.0
"""seconds between two lines in a pipe while no student finishes"""
LONG = 180.0
"""seconds from which a run is worth a shorter one first"""
BAR_COLUMNS = 100
"""columns of a terminal from which there are bars"""


class Display:
    """Shows the progress of students that train in other processes, read from their folders."""

    def __init__(self, console: Console, seconds: Mapping[str, float] | None = None) -> None:
        self.console = console
        self.seconds = seconds or {}

    @contextlib.contextmanager
    def watching(self, stages: Sequence[Mapping[Job, Work]], workers: int) -> Iterator[None]:
        """Show the plan, and progress until the block ends."""
        show = self._bars if self.console.is_terminal else self._lines
        students = _StudentProgress(stages, workers)
        say(self.console, listed(students.started(), students.plan()))
        with showing(partial(show, students)):
            yield

    def _bars(self, students: "_StudentProgress", done: threading.Event) -> None:
        columns = [TextColumn("{task.description}"), MofNCompleteColumn(), TextColumn("steps")]
        if self.console.width >= BAR_COLUMNS:
            columns.insert(1, BarColumn(bar_width=20))
        status = TextColumn("{task.fields[status]}", markup=False)
        with Progress(*columns, status, console=self.console) as progress:
            overall = progress.add_task("all students", total=students.total, status="")
            bars: dict[Job, TaskID] = {}
            while True:
                last = done.wait(POLL_EVERY)
                for job in students.poll():
                    say(progress.console, students.finished(job))
                for job, steps in students.steps_done.items():
                    if 0 < steps < students.steps[job]:
                        name, total = job.title, students.steps[job]
                        bar = bars.get(job) or progress.add_task(name, total=total, status="")
                        bars[job] = bar
                        progress.update(bar, completed=steps, status=figures(job))
                    elif job in bars:
                        progress.update(bars[job], visible=False)
                progress.update(
                    overall,
                    completed=sum(students.steps_done.values()),
                    status=students.progress(),
                )
                if last:
                    return

    def _lines(self, students: "_StudentProgress", done: threading.Event) -> None:
        reported = time.monotonic()
        while True:
            last = done.wait(POLL_EVERY)
            for job in students.poll():
                say(
                    self.console,
                    listed(students.finished(job), students.count(), students.progress()),
                )
                reported = time.monotonic()
            if time.monotonic() - reported > REPORT_EVERY and not last:
                say(
                    self.console,
                    listed(students.count(), students.progress(), students.running()),
                )
                reported = time.monotonic()
            if last:
                return


class _StudentProgress:
    """Steps done by each student."""

    def __init__(self, stages: Sequence[Mapping[Job, Work]], workers: int) -> None:
        self.steps = {job: work.steps for stage in stages for job, work in stage.items()}
        self.total = sum(self.steps.values())
        self.workers = workers
        self._reported: set[Job] = set()
        self._began = time.monotonic()
        self._time_left = _time_left(stages, workers)
        self._read()

    def _read(self) -> None:
        self.steps_done = {
            job: _steps_done(job.folder, most) for job, most in self.steps.items()
        }
        shares = {job: done / self.steps[job] for job, done in self.steps_done.items()}
        self._time_left.update(time.monotonic(), shares)

    def poll(self) -> list[Job]:
        """Read how far all students are; returns those that have finished since."""
        self._read()
        finished = [
            j
            for j, n in self.steps_done.items()
            if n == self.steps[j] and j not in self._reported
        ]
        self._reported |= set(finished)
        return finished

    def started(self) -> str:
        arms = ", ".join(dict.fromkeys(job.arm for job in self.steps_done))
        least, most = min(self.steps.values()), max(self.steps.values())
        steps = f"{most:,} steps each" if least == most else f"{most:,} steps or fewer"
        return f"training {len(self.steps_done)} students of {steps}: {arms}"

    def plan(self) -> str:
        """How long that takes, and how a first run takes less."""
        seconds = self._time_left.seconds()
        if not seconds:  # not measured, or nothing is left
            return ""
        parts = [f"{self.workers} at a time, {roughly(seconds)}"]
        seeds = len({job.seed for job in self.steps})
        if seeds > 1 and seconds > LONG:
            parts += [f"--seeds 1 for a first run of {roughly(seconds / seeds)}"]
        return listed(*parts)

    def count(self) -> str:
        return f"{len(self._reported)} of {len(self.steps_done)} students"

    def progress(self) -> str:
        done = sum(self.steps_done.values())
        share = f"{100 * done // self.total}% of all steps"
        so_far = f"{clock(time.monotonic() - self._began)} so far"
        return listed(share, so_far, self._time_left_in_words())

    def _time_left_in_words(self) -> str:
        seconds, bounds = self._time_left.seconds(), self._time_left.bounds()
        if not seconds:
            return ""
        if bounds is None:
            return f"{roughly(seconds)} left"
        low, high = (roughly(bound).removeprefix("about ") for bound in bounds)
        return f"{roughly(seconds)} left, {low} to {high} at the paces so far"

    def running(self) -> str:
        running = [job for job, done in self.steps_done.items() if 0 < done < self.steps[job]]
        parts = [f"{job.title}: {figures(job) or 'first epoch'}" for job in running]
        return " | ".join(parts)

    def finished(self, job: Job) -> str:
        return listed(f"trained {job.title}", figures(job))


def _time_left(stages: Sequence[Mapping[Job, Work]], workers: int) -> TimeLeft:
    # without measured seconds a step is as long as any other
    measured = all(math.isfinite(work.seconds) for stage in stages for work in stage.values())
    costs = [
        {job: work.seconds if measured else float(work.steps) for job, work in stage.items()}
        for stage in stages
    ]
    return TimeLeft(costs, workers, trust=TRUSTED if measured else 0.0)


def figures(job: Job) -> str:
    """Accuracy and weights of a student's last finished epoch, as text."""
    entry = _last_entry(job.folder / "metrics.jsonl")
    if not entry:
        return ""
    parts = [f"epoch {entry['epoch']}/{max(job.settings.epochs, entry['epoch'])}"]
    parts += [f"test {100 * entry['test_accuracy']:.1f}%"]
    weights = entry.get("weight_right"), entry.get("weight_wrong")
    known = all(isinstance(weight, int | float) for weight in weights)
    if known and weights != (1, 1):  # an arm that does not weigh
        parts += [f"weights right {weights[0]:.2f}, wrong {weights[1]:.2f}"]
    return ", ".join(parts)


def _last_entry(file: Path) -> dict[str, Any]:
    try:
        entry = json.loads(file.read_text(encoding="utf-8").splitlines()[-1])
        numbers = (entry["epoch"], entry["test_accuracy"])
    except (OSError, ValueError, LookupError, TypeError):  # not begun, or damaged
        return {}
    return entry if all(isinstance(n, int | float) for n in numbers) else {}


def _steps_done(folder: Path, steps: int) -> int:
    if (folder / "result.json").exists():
        return steps
    try:
        return min(int((folder / "progress").read_text(encoding="ascii")), steps - 1)
    except (OSError, ValueError):  # not begun, or just being written
        return 0
