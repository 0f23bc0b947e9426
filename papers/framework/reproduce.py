"""One reproduction from what was asked to what was found."""

from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from papers.framework.args import Reproduce
from papers.framework.campaign import missing, run_jobs
from papers.framework.display import watching
from papers.framework.figure import write_figure
from papers.framework.jobs import Failure
from papers.framework.page import write_page
from papers.framework.plan import Job, Plan, plan
from papers.framework.recipe import Recipe
from papers.framework.results import result, store
from tutelage.errors import UsageError
from tutelage.storage.json_files import unwritten
from tutelage_cli.runner.run_folder import sweep
from tutelage_cli.terminal import say


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


def reproduce(recipe: Recipe, asked: Reproduce, console: Console) -> Found:
    """Run what is missing of a recipe and write its result, its figure and the page."""
    todo = plan(recipe, asked)
    jobs = missing(todo)
    if jobs:
        recipe.prepare(todo.settings)
    try:
        return _carry_out(todo, jobs, asked, console)
    except OSError as error:
        then = "then give the same command again: it goes on with what is missing"
        raise UsageError(unwritten(error, error.filename or todo.root, then)) from error


def _carry_out(todo: Plan, jobs: list[Job], asked: Reproduce, console: Console) -> Found:
    failures: list[Failure] = []
    todo.folder.mkdir(parents=True, exist_ok=True)
    sweep(todo.folder)
    there = len(todo.jobs) - len(jobs)
    if there:
        before = f"{there} of {len(todo.jobs)} jobs were finished before: {todo.folder}"
        say(console, before)
    if jobs:
        with watching(console, jobs):
            failures = run_jobs(todo, jobs, backend=asked.backend, at_once=asked.jobs)
    content = result(todo, failures)
    files = [store(todo.root, content)]
    if content["plots"]:
        files.append(files[0].with_suffix(".svg"))
        write_figure(content, files[1])
    return Found(content, failures, (*files, write_page(todo.root)), todo.folder)
