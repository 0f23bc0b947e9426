"""A study: trains every arm with every seed, several at a time, and writes the report."""

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib

from tutelage.commentaries.commentary import rewrite_card
from tutelage.errors import UsageError, first_few
from tutelage.storage.atomic_files import name_in_error
from tutelage.storage.json_files import write_json
from tutelage_cli.runner.log_names import LogName
from tutelage_cli.runner.ray_tasks import RESTARTS, RayTasks, WorkerFailure, ray_tasks
from tutelage_cli.runner.run_folder import exists, sweep
from tutelage_cli.runner.trackers import prepare_log
from tutelage_cli.runner.workers import handling, process_count, started_workers
from tutelage_cli.train.arms import device_of
from tutelage_cli.train.controls.fold_check import check_folds
from tutelage_cli.train.controls.job_stages import is_finished, reads_folds, training_stages
from tutelage_cli.train.data_parallel import all_processes
from tutelage_cli.train.display import Display
from tutelage_cli.train.job import Job
from tutelage_cli.train.material import Source, seed_material
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.step_seconds import Work, expected_work
from tutelage_cli.train.worker import STOP, as_arrays, train_on_node, train_one

SHORT = 10.0
"""seconds of training for which no worker processes are started: that takes seconds too"""


def run_study(
    run: Path,
    settings: TrainSettings,
    source: Source,
    display: Display,
    log_every: int = 0,
    log: LogName = "tensorboard",
    backend: str = "processes",
) -> dict[str, Any] | None:
    """Train all students, from their checkpoints if they have any, and write the report."""
    device = device_of(settings).type  # nodes of a cluster may have others
    of_jobs = replace(settings, device=device) if backend == "ray" else settings
    # workers of an earlier run in this process keep the working directory of that time
    stages = training_stages(run.absolute(), of_jobs, log_every, log)
    (run / STOP).unlink(missing_ok=True)
    sweep(run)
    _check_folds_that_are_read(stages, source)
    if log_every:
        prepare_log(log, run.absolute())

    def request_stop(*_: object) -> None:
        (run / STOP).touch()

    expected = expected_work(stages, source, settings, display.seconds)
    on_ray = ray_tasks(device) if backend == "ray" else nullcontext()
    with on_ray as tasks, all_processes(run):
        most = settings.jobs or default_jobs(settings, expected)
        most = 1 if process_count() > 1 else most
        if tasks is not None:
            tasks.check_folder(run.absolute())
            most = min(settings.jobs or tasks.slots, tasks.slots)
        workers = min(most, max(map(len, stages)))
        with handling(request_stop), display.watching(expected, workers):
            if tasks is None:
                done = _train_all(stages, source, workers)
            else:
                done = _train_on_cluster(tasks, stages, source, settings.jobs)
    (run / STOP).unlink(missing_ok=True)
    if not done:
        return None
    # charts and statistics take seconds to import, and no student waits for them
    from tutelage_cli.report import write
    from tutelage_cli.train.report_content import run_content
    from tutelage_cli.train.summary import summarise

    material = seed_material(source, settings, 0)
    summary = summarise(run, settings, material)
    write_json(run / "summary.json", summary)
    write(run_content(run, settings, summary, material), run / "report.html")
    _copy_commentary(run, settings, summary)
    return summary


def _check_folds_that_are_read(stages: list[list[Job]], source: Source) -> None:
    # where a run goes on; nothing that is finished reads them again
    readers = [job for stage in stages for job in stage if reads_folds(job)]
    of_seed = {job.seed: job for job in readers if not is_finished(job)}
    if of_seed and exists(readers[0].run / "folds"):
        check_folds(
            (job, seed_material(source, job.settings, seed)) for seed, job in of_seed.items()
        )


def _train_all(stages: list[list[Job]], source: Source, n_jobs: int) -> bool:
    arrays = as_arrays(source)
    with started_workers(n_jobs) as parallel:
        return all(
            all(parallel(joblib.delayed(train_one)(job, arrays) for job in stage))
            for stage in stages
        )


def _train_on_cluster(
    tasks: RayTasks, stages: list[list[Job]], source: Source, at_once: int | None
) -> bool:
    arrays, run = tasks.share(as_arrays(source)), stages[0][0].run
    for stage in stages:
        calls = [(job, arrays) for job in stage]
        ends = tasks.results(train_on_node, calls, at_once, (run / STOP).exists)
        died = [
            f"{job.title} ({end.error})"
            for job, end in zip(stage, ends, strict=True)
            if isinstance(end, WorkerFailure)
        ]
        if died:
            raise UsageError(
                f"A student's process died {RESTARTS + 1} times (out of memory, or its node "
                f"left?): {first_few(died)}. Go on from the checkpoints with: tutelage train "
                f"--resume {run} --backend ray"
            )
        if not all(ends):
            return False
    return True


def default_jobs(settings: TrainSettings, expected: Sequence[Mapping[Job, Work]]) -> int:
    """Students trained at the same time on this machine where no number is given."""
    seconds = sum(work.seconds for stage in expected for work in stage.values())
    if device_of(settings).type != "cpu" or seconds < SHORT:
        return 1
    return os.cpu_count() or 1


def _copy_commentary(run: Path, settings: TrainSettings, summary: dict[str, Any]) -> None:
    from tutelage_cli.train.report_content import command_line
    from tutelage_cli.train.verdict import gains_over_controls

    # the commentary of the first teacher that learns, with the gains of its arm
    taught = {
        arm: Job(run, arm, 0, settings).folder / "commentary" for arm in settings.arms[1:]
    }
    arm, first = next((one for one in taught.items() if one[1].exists()), ("", None))
    if first is not None and not (run / "commentary").exists():
        fresh = run / ".commentary"
        shutil.rmtree(fresh, ignore_errors=True)
        with name_in_error(run / "commentary"):
            shutil.copytree(first, fresh)
            gains = gains_over_controls(summary["arms"], arm)
            where = f"the run that it was learned in, number of seeds: {settings.seeds}"
            named = replace(settings, data=summary["data"]["name"])
            facts = {"gains": gains, "measured_on": where, "command": command_line(named)}
            rewrite_card(fresh, facts)
            fresh.rename(run / "commentary")
