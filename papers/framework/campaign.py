"""All jobs of a plan through joblib, on this machine or on a Ray cluster."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from importlib import import_module
from typing import Any

import joblib

from papers.framework.jobs import Failure, finished, run_job
from papers.framework.plan import Job, Plan
from tutelage.errors import MissingExtraError
from tutelage.storage.json_files import write_json
from tutelage_cli.runner.workers import keep_loaded

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
    workers = at_once or (1 if plan.device == "cuda" else os.cpu_count() or 1)
    calls = [
        joblib.delayed(run_job)(plan.recipe.run, job, plan.settings, plan.device)
        for job in jobs
    ]
    place = _ray(plan.device) if backend == "ray" else contextlib.nullcontext(BrokenExecutor)
    why = DIED
    with place as death:
        try:
            answers = _results(calls, min(workers, len(jobs)), backend)
        except death as error:
            answers, why = [], f"{DIED}: {str(error).strip().splitlines()[-1]}"
    return list(_kept(jobs, answers or [_lost(job, why) for job in jobs]))


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


def _results(calls: list[Any], workers: int, backend: str) -> list[Any]:
    # one job at a time to each worker: they are long, and what is finished shall be seen
    options: dict[str, Any] = {"n_jobs": workers, "batch_size": 1, "pre_dispatch": "all"}
    if backend == "ray":
        return list(joblib.Parallel(**options)(calls))
    parallel = joblib.Parallel(**options, backend="loky", initializer=keep_loaded)
    with _interrupts_ignored():  # workers inherit that: Ctrl-C is for the process that asked
        parallel.__enter__()
        if workers > 1:
            parallel(joblib.delayed(int)() for _ in range(workers))
    try:
        return list(parallel(calls))
    finally:
        parallel.__exit__(None, None, None)


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _ray(device: str) -> Iterator[type[BaseException]]:
    try:
        ray = import_module("ray")
        register = import_module("ray.util.joblib").register_ray
    except ImportError as error:
        raise MissingExtraError("ray", "cluster") from error
    ours = not ray.is_initialized()
    if ours:
        ray.init(log_to_driver=False, logging_level="warning", include_dashboard=False)
    register()
    needs = {"num_cpus": 1, "num_gpus": int(device == "cuda")}
    try:
        with joblib.parallel_config(backend="ray", ray_remote_args=needs):
            yield ray.exceptions.RayError
    finally:
        if ours:
            ray.shutdown()
