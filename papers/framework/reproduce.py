"""One reproduction: running its jobs, storing and printing its result, progress display."""

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
from papers.framework.jobs import Failure, run_jobs, unfinished_jobs
from papers.framework.plan import Job, Plan, make_plan
from papers.framework.recipe import Recipe
from papers.framework.results import Row, result, rows, store
from tutelage.errors import UsageError
from tutelage.storage.json_files import write_error
from tutelage_cli.runner.run_folder import sweep
from tutelage_cli.terminal import Pace, clock, listed, progress_bar, say, say_table, showing

POLL_INTERVAL = 0.25  # seconds between two checks of the jobs' files
PRINT_INTERVAL = 60.0  # seconds between two lines while no job ends, without a bar
MOST_METRICS, MOST_FAILURES = 3, 10
"""largest number of metrics of a finished job, and of failed jobs, that are printed"""


def _show_progress(console: Console, jobs: Sequence[Job], done: threading.Event) -> None:
    # a bar on a terminal; otherwise a line for each job, and one every minute
    pace, waiting, printed, last = Pace(), list(jobs), 0.0, False
    with progress_bar(console, "jobs") as progress:
        bar = progress.add_task("", total=len(jobs))
        if progress.disable:
            say(console, f"running {len(jobs)} jobs: every arm with every seed")
        while not last:
            last = done.wait(POLL_INTERVAL)
            for job in [j for j in waiting if j.file.exists() or j.error_file.exists()]:
                waiting.remove(job)
                say(progress.console, _job_line(job, len(jobs) - len(waiting), jobs, pace))
                printed = pace.seconds
            ended = len(jobs) - len(waiting)
            so_far = listed(f"{clock(pace.seconds)} so far", pace.left(ended, len(jobs)))
            progress.update(bar, completed=ended, description=so_far)
            if progress.disable and waiting and pace.seconds - printed > PRINT_INTERVAL:
                printed = pace.seconds
                say(console, listed(f"{ended} of {len(jobs)}", so_far))


def _job_line(job: Job, ended: int, jobs: Sequence[Job], pace: Pace) -> str:
    name = f"{job.arm}, seed {job.seed}" + ("" if job.file.exists() else " failed")
    left = pace.left(ended, len(jobs))
    return listed(f"{ended} of {len(jobs)}: {name}", first_metrics(job.file), left)


def first_metrics(file: Path) -> str:
    """The first metrics of a finished job, as text."""
    try:
        metrics = json.loads(file.read_bytes())["metrics"].items()
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # failed, or damaged
        return ""
    known = [(name, value) for name, value in metrics if isinstance(value, int | float)]
    return ", ".join(f"{name} {value:.4g}" for name, value in known[:MOST_METRICS])


class Reproduction(NamedTuple):
    """The result of a reproduction, and where it was written."""

    content: dict[str, Any]  # of the JSON file
    failures: list[Failure]
    files: tuple[Path, ...]  # what was written: JSON, figure where there is one, page
    folder: Path  # of the finished jobs

    @property
    def plain(self) -> dict[str, Any]:
        """The output as JSON: the file's content, the failed jobs and the written files."""
        failed = [failure._asdict() for failure in self.failures]
        written = [str(file) for file in self.files]
        return {**self.content, "failures": failed, "written": written}


def reproduce(recipe: Recipe, args: Reproduce, console: Console) -> Reproduction:
    """Run the unfinished jobs of a recipe, and write its result, its figure and the page."""
    plan = make_plan(recipe, args)
    jobs = unfinished_jobs(plan)
    if jobs:
        recipe.prepare(plan.settings)
    try:
        return _run_and_store(plan, jobs, args, console)
    except OSError as error:
        then = "then give the same command again: it goes on with what is missing"
        raise UsageError(write_error(error, error.filename or plan.root, then)) from error


def _run_and_store(
    plan: Plan, jobs: list[Job], args: Reproduce, console: Console
) -> Reproduction:
    failures: list[Failure] = []
    plan.folder.mkdir(parents=True, exist_ok=True)
    sweep(plan.folder)
    finished = len(plan.jobs) - len(jobs)
    if finished:
        text = f"{finished} of {len(plan.jobs)} jobs were finished before: {plan.folder}"
        say(console, text)
    if jobs:
        with showing(partial(_show_progress, console, jobs)):
            failures = run_jobs(plan, jobs, backend=args.backend, at_once=args.jobs)
    content = result(plan, failures)
    files = store_with_figure(plan.root, content)
    return Reproduction(content, failures, (*files, page.write_page(plan.root)), plan.folder)


def store_with_figure(root: Path, content: Mapping[str, Any]) -> list[Path]:
    """Write the file of a result, and its figure if it has plots."""
    files = [store(root, content)]
    if content["plots"]:
        files.append(files[0].with_suffix(".svg"))
        write_figure(content, files[1])
    return files


def print_result(console: Console, reproduction: Reproduction) -> None:
    """Print the paper's numbers and ours, every claim with its verdict, and the files."""
    content = reproduction.content
    table = rows(content)
    printed = [row for row in table if _is_printed(row, content["claims"])]
    say_table(console, page.HEADER, [page.row_cells(row) for row in printed])
    if content["scale"] != "paper":
        scale = content["scale"]
        say(
            console,
            f"Scale {scale}: the settings are not the paper's; what is tested are the claims.",
        )
    say(console, page.match_summary(table))
    for claim in content["claims"]:
        say(console, f"\nClaim: {page.claim_text(claim)}\nVerdict: {claim['verdict']}")
        for judged in claim["comparisons"]:
            say(console, f"  {judged['text']}: {judged['verdict']}; {page.reason(judged)}")
    say(console, f"\nRule: {content['claim']['rule']}")
    say(console, f"{content['recipe']}, {content['scale']}: {content['claim']['verdict']}")
    for file in reproduction.files:
        say(console, f"Written: {file}")
    for failure in reproduction.failures[:MOST_FAILURES]:
        say(console, f"FAILED {failure.arm}, seed {failure.seed}: {failure.reason}")
    if reproduction.failures:
        more = len(reproduction.failures) - MOST_FAILURES
        say(console, f"and {more} more" if more > 0 else "")
        where = f"Tracebacks are in {reproduction.folder}"
        say(console, f"{where}; the same command runs what is missing.")


def _is_printed(row: Row, claims: Sequence[Mapping[str, Any]]) -> bool:
    claimed = [tuple(m) for c in claims for j in c["comparisons"] for m in j["measures"]]
    return bool(row.match) or (row.arm, row.metric) in claimed
