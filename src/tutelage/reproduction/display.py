"""How far the jobs are: a bar on a terminal, a line for each finished job elsewhere."""

import contextlib
import threading
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.progress import TimeRemainingColumn as Remaining

from tutelage.reproduction.plan import Job

LOOKED_EVERY = 0.25
"""seconds between two looks at the jobs' files"""


@contextlib.contextmanager
def watching(console: Console, jobs: Sequence[Job]) -> Iterator[None]:
    """Show which jobs are finished until the block ends, whatever process they run in.

    Args:
        console: Where to show it.
        jobs: The jobs that are run.

    Yields:
        Nothing.
    """
    done = threading.Event()
    show = _bar if console.is_terminal else _lines
    watcher = threading.Thread(target=show, args=(console, jobs, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _bar(console: Console, jobs: Sequence[Job], done: threading.Event) -> None:
    columns = (TextColumn("jobs"), BarColumn(), MofNCompleteColumn(), Elapsed(), Remaining())
    with Progress(*columns, TextColumn("{task.description}"), console=console) as progress:
        bar = progress.add_task("", total=len(jobs))
        for ended, job in enumerate(_ending(jobs, done), 1):
            progress.update(bar, completed=ended, description=f"{job.arm}, seed {job.seed}")


def _lines(console: Console, jobs: Sequence[Job], done: threading.Event) -> None:
    for ended, job in enumerate(_ending(jobs, done), 1):
        failed = "" if job.file.exists() else " failed"
        told = f"{ended} of {len(jobs)}: {job.arm}, seed {job.seed}{failed}"
        console.print(told, highlight=False, markup=False)


def _ending(jobs: Sequence[Job], done: threading.Event) -> Iterator[Job]:
    waiting, last = list(jobs), False
    while not last:
        last = done.wait(LOOKED_EVERY)
        for job in [job for job in waiting if _ended(job)]:
            waiting.remove(job)
            yield job


def _ended(job: Job) -> bool:
    return job.file.exists() or job.error_file.exists()
