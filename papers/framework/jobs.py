"""Running one job, in whatever process it lands, and reading what it left."""

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
    """A job that did not end well."""

    arm: str
    seed: int
    reason: str  # one line; the traceback lies beside the job's place


def run_job(run: Run, job: Job, settings: Any, device: str) -> dict[str, Any] | Failure:
    """Run one job on one thread and write down what it measured.

    Note: raises ``OSError`` where what was measured cannot be kept; nor could the others' be.
    """
    torch.set_num_threads(1)  # two threads made these small models 5 to 20 times slower
    if multiprocessing.parent_process() is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asked
        _end_with_parent()
    # CPU time, to which others on the machine do not add; it says nothing of a card's work
    clock = time.perf_counter if device == "cuda" else time.process_time
    began = clock()
    try:
        outcome = run(job.arm, job.seed, settings, torch.device(device))
        record = _record(job, outcome, device, clock() - began)
        content = as_json(record)
    except Exception as error:  # noqa: BLE001 - whatever it was, it is reported with arm and seed
        return _failed(job, error)
    job.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(job.file, content)
    return record


@cache
def _end_with_parent() -> None:
    # An orphan would do the same job beside the run that goes on with it.
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
        pass  # a full disk may be what went wrong; the reason is still told
    return Failure(job.arm, job.seed, reason)


def _record(job: Job, outcome: Outcome, device: str, seconds: float) -> dict[str, Any]:
    return {
        "arm": job.arm,
        "seed": job.seed,
        "metrics": {name: finite(value) for name, value in outcome.metrics.items()},
        "series": {name: [finite(v) for v in line] for name, line in outcome.series.items()},
        "drawings": dict(outcome.drawings),
        "seconds": round(seconds, 3),
        "hardware": hardware(device),
        "versions": environment(),
    }


def finite(value: float) -> float | None:
    """A number as JSON can say it."""
    number = float(value)
    return number if math.isfinite(number) else None


def hardware(device: str) -> str:
    """What a job ran on, in words."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"CPU ({platform.machine()}), one thread"


def finished(job: Job, metrics: Sequence[str]) -> Mapping[str, Any] | None:
    """What a job measured."""
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
        raise ValueError("it holds what is no number")
    if record["seconds"] is None or not isinstance(record["hardware"], str):
        raise ValueError("it does not say how long it took, or on what")
    if not all(isinstance(record[name], dict) for name in ("drawings", "versions")):
        raise ValueError("it holds no drawings or versions")


DIED = "its process died (killed, or out of memory?)"


def missing(plan: Plan) -> list[Job]:
    """The jobs that are not finished yet."""
    return [job for job in plan.jobs if finished(job, tuple(plan.recipe.metrics)) is None]


def run_jobs(
    plan: Plan, jobs: Sequence[Job], *, backend: str, at_once: int | None
) -> list[Failure]:
    """Run jobs side by side, each on one thread, and keep what each measured."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    for job in jobs:
        job.error_file.unlink(missing_ok=True)  # of an earlier attempt
    calls = [(plan.recipe.run, job, plan.settings, plan.device) for job in jobs]
    if backend == "ray":
        with ray_tasks(plan.device) as tasks:
            results = tasks.results(run_job, calls, at_once)
        answers = [
            _lost(job, f"{DIED}: {result.error}")
            if isinstance(result, WorkerFailure)
            else result
            for job, result in zip(jobs, results, strict=True)
        ]
        return list(_kept(jobs, answers))
    workers = at_once or (1 if plan.device == "cuda" else os.cpu_count() or 1)
    try:
        answers = _in_processes(calls, min(workers, len(jobs)))
    except BrokenExecutor as error:
        answers = [_lost(job, f"{DIED}: {last_line(error)}") for job in jobs]
    return list(_kept(jobs, answers))


def _lost(job: Job, why: str) -> Failure:
    if job.error_file.exists():  # it had failed before another took its answer along
        why = job.error_file.read_text(encoding="utf-8").strip().splitlines()[-1]
    return Failure(job.arm, job.seed, why)


def _kept(
    jobs: Sequence[Job], answers: Sequence[dict[str, Any] | Failure]
) -> Iterator[Failure]:
    for job, answer in zip(jobs, answers, strict=True):
        if job.file.exists():
            continue
        if isinstance(answer, Failure):
            yield answer
        else:  # it ran on another machine of the cluster, with a disk of its own
            write_json(job.file, answer)


def _in_processes(calls: Sequence[tuple[Any, ...]], workers: int) -> list[Any]:
    # one job at a time to each worker: they are long, and what is finished shall be seen
    options: dict[str, Any] = {"batch_size": 1, "pre_dispatch": "all", "backend": "loky"}
    with started_workers(workers, **options) as parallel:
        return list(parallel(joblib.delayed(run_job)(*call) for call in calls))
