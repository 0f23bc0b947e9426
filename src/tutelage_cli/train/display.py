"""Progress of the students in training: bars on a terminal, lines in a pipe."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from tutelage_cli.terminal import Pace, clock, listed, say
from tutelage_cli.train.student_training import Job

POLL_EVERY = 0.25
"""seconds between two reads of the students' folders"""
REPORT_EVERY = 30.0
"""seconds between two lines in a pipe while no student finishes"""
ROOM = 100
"""columns of a terminal that bars need"""


class Display:
    """Shows the progress of students that train in other processes, read from their folders.

    Args:
        console: A terminal shows a bar for each student in training and a line for each
            finished one; elsewhere a line is printed every ``REPORT_EVERY`` seconds.
    """

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextlib.contextmanager
    def watching(self, jobs: Sequence[Job], steps: Mapping[Job, int]) -> Iterator[None]:
        """Show progress until the block ends."""
        done = threading.Event()
        show = self._bars if self.console.is_terminal else self._lines
        students = _StudentProgress({job: steps[job] for job in jobs})
        watcher = threading.Thread(target=show, args=(students, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _bars(self, students: "_StudentProgress", done: threading.Event) -> None:
        columns = [TextColumn("{task.description}"), MofNCompleteColumn(), TextColumn("steps")]
        if self.console.width >= ROOM:
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
        say(self.console, students.started())
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

    def __init__(self, steps: Mapping[Job, int]) -> None:
        self.steps = steps
        self.total = sum(steps.values())
        self.steps_done = {job: _steps_done(job.folder, most) for job, most in steps.items()}
        self._before = sum(self.steps_done.values())
        self._reported: set[Job] = set()
        self._pace = Pace()

    def poll(self) -> list[Job]:
        """Read how far all students are; returns those that have finished since."""
        self.steps_done = {
            job: _steps_done(job.folder, most) for job, most in self.steps.items()
        }
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

    def count(self) -> str:
        return f"{len(self._reported)} of {len(self.steps_done)} students"

    def progress(self) -> str:
        done = sum(self.steps_done.values())
        share = f"{100 * done // self.total}% of all steps"
        left = self._pace.left(done - self._before, self.total - self._before)
        return listed(share, f"{clock(self._pace.seconds)} so far", left)

    def running(self) -> str:
        running = [job for job, done in self.steps_done.items() if 0 < done < self.steps[job]]
        parts = [f"{job.title}: {figures(job) or 'first epoch'}" for job in running]
        return " | ".join(parts)

    def finished(self, job: Job) -> str:
        return listed(f"trained {job.title}", figures(job))


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
