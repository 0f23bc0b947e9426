"""Running jobs in processes or on Ray, and reading the records that they write."""

import json
import math
import multiprocessing
import os
import platform
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from functools import cache
from typing import Any, NamedTuple

import joblib
import torch

from papers.framework.plan import Job, Plan
from papers.framework.recipe import Outcome, Run
from tutelage.errors import UsageError
from tutelage.storage.atomic_files import write_atomically
from tutelage.storage.checkpoint import name_damaged_file
from tutelage.storage.json_files import as_json, environment, write_json
from tutelage_cli.runner.ray_tasks import WorkerFailure, last_line, ray_tasks
from tutelage_cli.runner.workers import started_workers


class Failure(NamedTuple):
    """A job that raised an error, or whose process died."""

    arm: str
    seed: int
    reason: str  # one line; the traceback is in ``Job.error_file``


def run_job(run: Run, job: Job, settings: Any, device: str) -> dict[str, Any] | Failure:
    """Run one job on one thread, and write its record to the job's file.

    Note: raises ``OSError`` if the record cannot be written: other jobs would fail, too.
    """
    torch.set_num_threads(1)  # two threads made these small models 5 to 20 times slower
    if multiprocessing.parent_process() is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
        _end_with_parent()
    # CPU time does not depend on other processes, but leaves out the work of a GPU
    clock = time.perf_counter if device == "cuda" else time.process_time
    start = clock()
    try:
        outcome = run(job.arm, job.seed, settings, torch.device(device))
        record = _record(job, outcome, device, clock() - start)
        content = as_json(record)
    except Exception as error:  # noqa: BLE001 - any error is reported with arm and seed
        return _failed(job, error)
    job.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(job.file, content)
    return record


@cache
def _end_with_parent() -> None:
    # otherwise this job would still run when the same command is given again
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _failed(job: Job, error: Exception) -> Failure:
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(job.error_file, "".join(traceback.format_exception(error)).encode())
    except OSError:
        pass  # the disk may be full; the reason is reported all the same
    return Failure(job.arm, job.seed, reason)


def _record(job: Job, outcome: Outcome, device: str, seconds: float) -> dict[str, Any]:
    return {
        "arm": job.arm,
        "seed": job.seed,
        "metrics": {name: finite_or_none(value) for name, value in outcome.metrics.items()},
        "series": {
            name: [finite_or_none(v) for v in line] for name, line in outcome.series.items()
        },
        "drawings": dict(outcome.drawings),
        "seconds": round(seconds, 3),
        "hardware": hardware(device),
        "versions": environment(),
    }


def finite_or_none(value: float) -> float | None:
    """A number for JSON, which has no infinity and no NaN."""
    number = float(value)
    return number if math.isfinite(number) else None


def hardware(device: str) -> str:
    """What a job ran on, in words."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"CPU ({platform.machine()}), one thread"


def read_record(job: Job, metrics: Sequence[str]) -> Mapping[str, Any] | None:
    """The record of a job; None if it is not finished.

    Args:
        job: The job.
        metrics: The metrics of its recipe.

    Raises:
        UsageError: If its file is damaged, or has other metrics.
    """
    try:
        text = job.file.read_bytes()
    except FileNotFoundError:
        return None
    with name_damaged_file(job.file, "Delete it to run that job again."):
        record = json.loads(text)
        _require_parts(record)
    if set(record["metrics"]) != set(metrics):
        raise UsageError(
            f"{job.file} does not measure {', '.join(metrics)}; delete it to run it again."
        )
    return record


def _require_parts(record: Any) -> None:
    measured = list(record["metrics"].values())
    for line in record["series"].values():
        measured += line
    measured.append(record["seconds"])
    if not all(value is None or type(value) in (int, float) for value in measured):
        raise ValueError("it holds a value that is not a number")
    if record["seconds"] is None or not isinstance(record["hardware"], str):
        raise ValueError("it lacks seconds or hardware")
    if not all(isinstance(record[name], dict) for name in ("drawings", "versions")):
        raise ValueError("it lacks drawings or versions")


DIED = "its process died (killed, or out of memory?)"


def unfinished_jobs(plan: Plan) -> list[Job]:
    """The jobs that are not finished yet."""
    return [job for job in plan.jobs if read_record(job, tuple(plan.recipe.metrics)) is None]


def run_jobs(
    plan: Plan, jobs: Sequence[Job], *, backend: str, at_once: int | None
) -> list[Failure]:
    """Run jobs in parallel, each on one thread; each writes its record.

    Args:
        plan: The plan that has the jobs.
        jobs: Those to run.
        backend: A name of ``args.BACKENDS``.
        at_once: Jobs at the same time; None: one for each CPU core, or one on a GPU.

    Returns:
        The jobs that failed.
    """
    plan.folder.mkdir(parents=True, exist_ok=True)
    for job in jobs:
        job.error_file.unlink(missing_ok=True)  # of an earlier attempt
    calls = [(plan.recipe.run, job, plan.settings, plan.device) for job in jobs]
    if backend == "ray":
        with ray_tasks(plan.device) as tasks:
            results = tasks.results(run_job, calls, at_once)
        outcomes = [
            _died(job, f"{DIED}: {result.error}")
            if isinstance(result, WorkerFailure)
            else result
            for job, result in zip(jobs, results, strict=True)
        ]
        return list(_store_records(jobs, outcomes))
    workers = at_once or (1 if plan.device == "cuda" else os.cpu_count() or 1)
    try:
        outcomes = _in_processes(calls, min(workers, len(jobs)))
    except BrokenExecutor as error:
        outcomes = [_died(job, f"{DIED}: {last_line(error)}") for job in jobs]
    return list(_store_records(jobs, outcomes))


def _died(job: Job, why: str) -> Failure:
    if job.error_file.exists():  # it had raised before the process died
        why = job.error_file.read_text(encoding="utf-8").strip().splitlines()[-1]
    return Failure(job.arm, job.seed, why)


def _store_records(
    jobs: Sequence[Job], outcomes: Sequence[dict[str, Any] | Failure]
) -> Iterator[Failure]:
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.file.exists():
            continue
        if isinstance(outcome, Failure):
            yield outcome
        else:  # it ran on another machine of the cluster, with a disk of its own
            write_json(job.file, outcome)


def _in_processes(calls: Sequence[tuple[Any, ...]], workers: int) -> list[Any]:
    # single jobs, not batches: they are long, and progress is shown after each
    options: dict[str, Any] = {"batch_size": 1, "pre_dispatch": "all", "backend": "loky"}
    with started_workers(workers, **options) as parallel:
        return list(parallel(joblib.delayed(run_job)(*call) for call in calls))
