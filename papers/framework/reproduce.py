"""One reproduction, from its arguments to its result, with a progress display."""

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from papers.framework.args import Reproduce
from papers.framework.figure import write_figure
from papers.framework.jobs import Failure, missing, run_jobs
from papers.framework.page import write_page
from papers.framework.plan import Job, Plan, plan
from papers.framework.recipe import Recipe
from papers.framework.results import result, store
from tutelage.errors import UsageError
from tutelage.storage.json_files import write_error
from tutelage_cli.runner.run_folder import sweep
from tutelage_cli.terminal import Pace, clock, listed, say

POLLED_EVERY = 0.25
"""seconds between two checks of the jobs' files"""
PRINTED_EVERY = 60.0
"""seconds between two lines elsewhere while no job ends"""
FIGURES = 3
"""metrics of a finished job that are printed, at most"""


@contextlib.contextmanager
def watching(console: Console, jobs: Sequence[Job]) -> Iterator[None]:
    """Show which jobs are finished until the block ends, whatever process they run in."""
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
    pace = Pace()
    columns = (TextColumn("jobs"), BarColumn(bar_width=20), MofNCompleteColumn())
    text = TextColumn("{task.description}", markup=False)
    with Progress(*columns, text, console=console) as progress:
        bar, ended = progress.add_task("", total=len(jobs)), 0
        for fresh in _ending(jobs, done):
            for job in fresh:
                ended += 1
                say(progress.console, listed(_name(job), figures(job.file)))
            progress.update(bar, completed=ended, description=_far(pace, ended, len(jobs)))


def _lines(console: Console, jobs: Sequence[Job], done: threading.Event) -> None:
    pace, ended, printed = Pace(), 0, 0.0
    say(console, f"running {len(jobs)} jobs: every arm with every seed")
    for fresh in _ending(jobs, done):
        for job in fresh:
            ended, printed = ended + 1, pace.seconds
            line = f"{ended} of {len(jobs)}: {_name(job)}"
            say(console, listed(line, figures(job.file), _far(pace, ended, len(jobs))))
        if pace.seconds - printed > PRINTED_EVERY and ended < len(jobs):
            printed = pace.seconds
            say(console, listed(f"{ended} of {len(jobs)}", _far(pace, ended, len(jobs))))


def _far(pace: Pace, ended: int, jobs: int) -> str:
    return listed(f"{clock(pace.seconds)} so far", pace.left(ended, jobs))


def _name(job: Job) -> str:
    return f"{job.arm}, seed {job.seed}" + ("" if job.file.exists() else " failed")


def figures(file: Path) -> str:
    """The first figures that a finished job measured."""
    try:
        metrics = json.loads(file.read_bytes())["metrics"].items()
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # failed, or damaged
        return ""
    known = [(name, value) for name, value in metrics if isinstance(value, int | float)]
    return ", ".join(f"{name} {value:.4g}" for name, value in known[:FIGURES])


def _ending(jobs: Sequence[Job], done: threading.Event) -> Iterator[list[Job]]:
    """Look again and again, a last time when all is done."""
    waiting, last = list(jobs), False
    while not last:
        last = done.wait(POLLED_EVERY)
        fresh = [job for job in waiting if _ended(job)]
        waiting = [job for job in waiting if job not in fresh]
        yield fresh


def _ended(job: Job) -> bool:
    return job.file.exists() or job.error_file.exists()


class Found(NamedTuple):
    """What came of it."""

    content: dict[str, Any]
    """of the JSON file"""
    failures: list[Failure]
    files: tuple[Path, ...]
    """what was written: JSON, figure where there is one, page"""
    folder: Path
    """where the finished jobs lie"""

    @property
    def plain(self) -> dict[str, Any]:
        """What is printed as JSON: the file's content, the failed jobs and what was written."""
        failed = [failure._asdict() for failure in self.failures]
        written = [str(file) for file in self.files]
        return {**self.content, "failures": failed, "written": written}


def reproduce(recipe: Recipe, args: Reproduce, console: Console) -> Found:
    """Run what is missing of a recipe and write its result, its figure and the page."""
    todo = plan(recipe, args)
    jobs = missing(todo)
    if jobs:
        recipe.prepare(todo.settings)
    try:
        return _carry_out(todo, jobs, args, console)
    except OSError as error:
        then = "then give the same command again: it goes on with what is missing"
        raise UsageError(write_error(error, error.filename or todo.root, then)) from error


def _carry_out(todo: Plan, jobs: list[Job], args: Reproduce, console: Console) -> Found:
    failures: list[Failure] = []
    todo.folder.mkdir(parents=True, exist_ok=True)
    sweep(todo.folder)
    there = len(todo.jobs) - len(jobs)
    if there:
        before = f"{there} of {len(todo.jobs)} jobs were finished before: {todo.folder}"
        say(console, before)
    if jobs:
        with watching(console, jobs):
            failures = run_jobs(todo, jobs, backend=args.backend, at_once=args.jobs)
    content = result(todo, failures)
    files = [store(todo.root, content)]
    if content["plots"]:
        files.append(files[0].with_suffix(".svg"))
        write_figure(content, files[1])
    return Found(content, failures, (*files, write_page(todo.root)), todo.folder)
