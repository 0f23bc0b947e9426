"""One reproduction, from its arguments to what is printed, with a progress display."""

import json
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from papers.framework import page
from papers.framework.args import Reproduce
from papers.framework.figure import write_figure
from papers.framework.jobs import Failure, missing, run_jobs
from papers.framework.plan import Job, Plan, plan
from papers.framework.recipe import Recipe
from papers.framework.results import Row, result, rows, store
from tutelage.errors import UsageError
from tutelage.storage.json_files import write_error
from tutelage_cli.runner.run_folder import sweep
from tutelage_cli.terminal import Pace, clock, listed, progress_bar, say, say_table, showing

POLLED_EVERY = 0.25  # seconds between two checks of the jobs' files
PRINTED_EVERY = 60.0  # seconds between two lines while no job ends, where no bar shows it
MOST_FIGURES, MOST_FAILURES = 3, 10
"""metrics of a finished job and failed jobs that are printed, at most"""


def _watch(console: Console, jobs: Sequence[Job], done: threading.Event) -> None:
    # a bar on a terminal; elsewhere a line for each job, and one a minute
    pace, waiting, printed, last = Pace(), list(jobs), 0.0, False
    with progress_bar(console, "jobs") as progress:
        bar = progress.add_task("", total=len(jobs))
        if progress.disable:
            say(console, f"running {len(jobs)} jobs: every arm with every seed")
        while not last:
            last = done.wait(POLLED_EVERY)
            for job in [j for j in waiting if j.file.exists() or j.error_file.exists()]:
                waiting.remove(job)
                say(progress.console, _line(job, len(jobs) - len(waiting), jobs, pace))
                printed = pace.seconds
            ended = len(jobs) - len(waiting)
            so_far = listed(f"{clock(pace.seconds)} so far", pace.left(ended, len(jobs)))
            progress.update(bar, completed=ended, description=so_far)
            if progress.disable and waiting and pace.seconds - printed > PRINTED_EVERY:
                printed = pace.seconds
                say(console, listed(f"{ended} of {len(jobs)}", so_far))


def _line(job: Job, ended: int, jobs: Sequence[Job], pace: Pace) -> str:
    name = f"{job.arm}, seed {job.seed}" + ("" if job.file.exists() else " failed")
    left = pace.left(ended, len(jobs))
    return listed(f"{ended} of {len(jobs)}: {name}", figures(job.file), left)


def figures(file: Path) -> str:
    """The first figures that a finished job measured."""
    try:
        metrics = json.loads(file.read_bytes())["metrics"].items()
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # failed, or damaged
        return ""
    known = [(name, value) for name, value in metrics if isinstance(value, int | float)]
    return ", ".join(f"{name} {value:.4g}" for name, value in known[:MOST_FIGURES])


class Reproduction(NamedTuple):
    """What came of it."""

    content: dict[str, Any]  # of the JSON file
    failures: list[Failure]
    files: tuple[Path, ...]  # what was written: JSON, figure where there is one, page
    folder: Path  # where the finished jobs lie

    @property
    def plain(self) -> dict[str, Any]:
        """What is printed as JSON: the file's content, the failed jobs and what was written."""
        failed = [failure._asdict() for failure in self.failures]
        written = [str(file) for file in self.files]
        return {**self.content, "failures": failed, "written": written}


def reproduce(recipe: Recipe, args: Reproduce, console: Console) -> Reproduction:
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


def _carry_out(todo: Plan, jobs: list[Job], args: Reproduce, console: Console) -> Reproduction:
    failures: list[Failure] = []
    todo.folder.mkdir(parents=True, exist_ok=True)
    sweep(todo.folder)
    there = len(todo.jobs) - len(jobs)
    if there:
        before = f"{there} of {len(todo.jobs)} jobs were finished before: {todo.folder}"
        say(console, before)
    if jobs:
        with showing(partial(_watch, console, jobs)):
            failures = run_jobs(todo, jobs, backend=args.backend, at_once=args.jobs)
    content = result(todo, failures)
    files = store_with_figure(todo.root, content)
    return Reproduction(content, failures, (*files, page.write_page(todo.root)), todo.folder)


def store_with_figure(root: Path, content: Mapping[str, Any]) -> list[Path]:
    """Write a result down, and its figure where it has plots."""
    files = [store(root, content)]
    if content["plots"]:
        files.append(files[0].with_suffix(".svg"))
        write_figure(content, files[1])
    return files


def print_result(console: Console, found: Reproduction) -> None:
    """Print the paper's numbers beside ours, every claim with its verdict, and the files."""
    content = found.content
    every = rows(content)
    counted = [row for row in every if _is_printed(row, content["claims"])]
    say_table(console, page.HEADER, [page.cells(row) for row in counted])
    if content["scale"] != "paper":
        scale = content["scale"]
        say(console, f"Scale {scale}: the settings are not the paper's; see its claims.")
    say(console, page.score(every))
    for claim in content["claims"]:
        say(console, f"\nClaim: {page.claim_text(claim)}\nVerdict: {claim['verdict']}")
        for judged in claim["comparisons"]:
            say(console, f"  {judged['text']}: {judged['verdict']}; {page.reason(judged)}")
    say(console, f"\nRule: {content['claim']['rule']}")
    say(console, f"{content['recipe']}, {content['scale']}: {content['claim']['verdict']}")
    for file in found.files:
        say(console, f"Written: {file}")
    for failure in found.failures[:MOST_FAILURES]:
        say(console, f"FAILED {failure.arm}, seed {failure.seed}: {failure.reason}")
    if found.failures:
        more = len(found.failures) - MOST_FAILURES
        say(console, f"and {more} more" if more > 0 else "")
        where = f"Tracebacks are in {found.folder}"
        say(console, f"{where}; the same command runs what is missing.")


def _is_printed(row: Row, claims: Sequence[Mapping[str, Any]]) -> bool:
    spoken = [tuple(m) for c in claims for j in c["comparisons"] for m in j["measures"]]
    return bool(row.match) or (row.arm, row.metric) in spoken
