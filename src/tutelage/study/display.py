"""What a person sees while students train: a bar for each, or plain lines in a pipe."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tutelage.study.trainee import Job

LOOKED_EVERY = 0.25
"""seconds between two looks at the students' folders"""


class Display:
    """Watches the folders of students that train in other processes.

    Args:
        console: Where to show it; bars on a terminal, a line per finished student elsewhere.
    """

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextlib.contextmanager
    def watching(self, jobs: Sequence[Job], steps: int) -> Iterator[None]:
        """Show how far the students are until the block ends.

        Args:
            jobs: The students.
            steps: How many steps each takes.

        Yields:
            Nothing.
        """
        done = threading.Event()
        show = self._bars if self.console.is_terminal else self._lines
        watcher = threading.Thread(target=show, args=(jobs, steps, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _bars(self, jobs: Sequence[Job], steps: int, done: threading.Event) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console) as progress:
            bars = {
                job: progress.add_task(f"{job.arm}, seed {job.seed}", total=steps, start=False)
                for job in jobs
            }
            while True:
                last = done.wait(LOOKED_EVERY)
                for job, bar in bars.items():
                    taken = _taken(job.folder, steps)
                    if taken and not progress.tasks[bar].started:
                        progress.start_task(bar)
                    progress.update(bar, completed=taken)
                if last:
                    return

    def _lines(self, jobs: Sequence[Job], steps: int, done: threading.Event) -> None:
        waiting = list(jobs)
        while True:
            last = done.wait(LOOKED_EVERY)
            for job in [job for job in waiting if _taken(job.folder, steps) == steps]:
                waiting.remove(job)
                self.console.print(f"trained {job.arm}, seed {job.seed}", highlight=False)
            if last:
                return


def _taken(folder: Path, steps: int) -> int:
    if (folder / "result.json").exists():
        return steps
    try:
        return min(int((folder / "progress").read_text(encoding="ascii")), steps - 1)
    except (OSError, ValueError):  # not begun, or just being written
        return 0
