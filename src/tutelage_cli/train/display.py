"""What a person sees while students train: bars on a terminal, plain lines in a pipe."""

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
from tutelage_cli.train.trainee import Job

LOOKED_EVERY = 0.25
"""seconds between two looks at the students' folders"""
TOLD_EVERY = 30.0
"""seconds between two lines in a pipe that tell how far it is, where no student has ended"""
ROOM = 100
"""columns of a terminal from which on there is room for bars"""


class Display:
    """Watches the folders of students that train in other processes.

    Args:
        console: Where to show it; bars of those in training on a terminal, a line for each
            that has ended, and elsewhere a line every ``TOLD_EVERY`` seconds.
    """

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextlib.contextmanager
    def watching(self, jobs: Sequence[Job], steps: Mapping[Job, int]) -> Iterator[None]:
        """Show how far the students are until the block ends."""
        done = threading.Event()
        show = self._bars if self.console.is_terminal else self._lines
        ward = _Ward({job: steps[job] for job in jobs})
        watcher = threading.Thread(target=show, args=(ward, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _bars(self, ward: "_Ward", done: threading.Event) -> None:
        columns = [TextColumn("{task.description}"), MofNCompleteColumn(), TextColumn("steps")]
        if self.console.width >= ROOM:
            columns.insert(1, BarColumn(bar_width=20))
        told = TextColumn("{task.fields[told]}", markup=False)
        with Progress(*columns, told, console=self.console) as progress:
            whole = progress.add_task("all students", total=ward.total, told="")
            bars: dict[Job, TaskID] = {}
            while True:
                last = done.wait(LOOKED_EVERY)
                for job in ward.look():
                    say(progress.console, ward.ended(job))
                for job, taken in ward.taken.items():
                    if 0 < taken < ward.steps[job]:
                        name, total = job.title, ward.steps[job]
                        bar = bars.get(job) or progress.add_task(name, total=total, told="")
                        bars[job] = bar
                        progress.update(bar, completed=taken, told=figures(job))
                    elif job in bars:
                        progress.update(bars[job], visible=False)
                progress.update(whole, completed=sum(ward.taken.values()), told=ward.far())
                if last:
                    return

    def _lines(self, ward: "_Ward", done: threading.Event) -> None:
        say(self.console, ward.begun())
        told = time.monotonic()
        while True:
            last = done.wait(LOOKED_EVERY)
            for job in ward.look():
                say(self.console, listed(ward.ended(job), ward.counted(), ward.far()))
                told = time.monotonic()
            if time.monotonic() - told > TOLD_EVERY and not last:
                say(self.console, listed(ward.counted(), ward.far(), ward.amid()))
                told = time.monotonic()
            if last:
                return


class _Ward:
    """Students, and how far each is."""

    def __init__(self, steps: Mapping[Job, int]) -> None:
        self.steps = steps
        self.total = sum(steps.values())
        self.taken = {job: _taken(job.folder, most) for job, most in steps.items()}
        self._before = sum(self.taken.values())
        self._told: set[Job] = set()
        self._pace = Pace()

    def look(self) -> list[Job]:
        """Look how far all are."""
        self.taken = {job: _taken(job.folder, most) for job, most in self.steps.items()}
        ended = [j for j, n in self.taken.items() if n == self.steps[j] and j not in self._told]
        self._told |= set(ended)
        return ended

    def begun(self) -> str:
        arms = ", ".join(dict.fromkeys(job.arm for job in self.taken))
        least, most = min(self.steps.values()), max(self.steps.values())
        steps = f"{most:,} steps each" if least == most else f"{most:,} steps or fewer"
        return f"training {len(self.taken)} students of {steps}: {arms}"

    def counted(self) -> str:
        return f"{len(self._told)} of {len(self.taken)} students"

    def far(self) -> str:
        done = sum(self.taken.values())
        share = f"{100 * done // self.total}% of all steps"
        left = self._pace.left(done - self._before, self.total - self._before)
        return listed(share, f"{clock(self._pace.seconds)} so far", left)

    def amid(self) -> str:
        amid = [job for job, taken in self.taken.items() if 0 < taken < self.steps[job]]
        told = [f"{job.title}: {figures(job) or 'first epoch'}" for job in amid]
        return " | ".join(told)

    def ended(self, job: Job) -> str:
        return listed(f"trained {job.title}", figures(job))


def figures(job: Job) -> str:
    """The figures that matter of a student's last finished epoch."""
    entry = _last_entry(job.folder / "metrics.jsonl")
    if not entry:
        return ""
    told = [f"epoch {entry['epoch']}/{max(job.settings.epochs, entry['epoch'])}"]
    told += [f"test {100 * entry['test_accuracy']:.1f}%"]
    weights = entry.get("weight_right"), entry.get("weight_wrong")
    known = all(isinstance(weight, int | float) for weight in weights)
    if known and weights != (1, 1):  # an arm that does not weigh
        told += [f"weights right {weights[0]:.2f}, wrong {weights[1]:.2f}"]
    return ", ".join(told)


def _last_entry(file: Path) -> dict[str, Any]:
    try:
        entry = json.loads(file.read_text(encoding="utf-8").splitlines()[-1])
        numbers = (entry["epoch"], entry["test_accuracy"])
    except (OSError, ValueError, LookupError, TypeError):  # not begun, or damaged
        return {}
    return entry if all(isinstance(n, int | float) for n in numbers) else {}


def _taken(folder: Path, steps: int) -> int:
    if (folder / "result.json").exists():
        return steps
    try:
        return min(int((folder / "progress").read_text(encoding="ascii")), steps - 1)
    except (OSError, ValueError):  # not begun, or just being written
        return 0
