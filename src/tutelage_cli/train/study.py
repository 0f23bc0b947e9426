"""A study: every arm with every seed, several students at a time, and what came of it."""

import contextlib
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from torch import Tensor

from tutelage.storage.atomic_files import name_in_error
from tutelage.storage.json_files import write_json
from tutelage_cli.data.features.feature_set import FeatureParts, FeatureSet
from tutelage_cli.data.images import ImageSet, Splits
from tutelage_cli.data.text.text_set import TextParts, TextSet
from tutelage_cli.report import write
from tutelage_cli.runner.run_folder import sweep
from tutelage_cli.runner.workers import keep_loaded
from tutelage_cli.train.arms import device_of
from tutelage_cli.train.controls.stages import staged, steps_of
from tutelage_cli.train.display import Display
from tutelage_cli.train.material import Material, Source, open_streams, seed_material
from tutelage_cli.train.report_content import run_content
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.summary import summarise
from tutelage_cli.train.texts import Data
from tutelage_cli.train.trainee import Job, train_student

PARTS = ("train", "test")
KINDS = {ImageSet: Splits, TextSet: TextParts, FeatureSet: FeatureParts}
"""what holds both parts, by what they are"""
STOP = "stop"
"""a file of this name in the run's folder asks all its students to stop"""


def run_study(
    run: Path, settings: TrainSettings, source: Source, display: Display, log_every: int = 0
) -> dict[str, Any] | None:
    """Train all students, going on where an earlier attempt stopped, and write the report."""
    # workers of an earlier run in this process keep the working directory of that time
    stages = staged(run.absolute(), settings, log_every)
    jobs = [job for stage in stages for job in stage]
    (run / STOP).unlink(missing_ok=True)
    sweep(run)
    with _stopped_by_interrupt(run), display.watching(jobs, _steps(jobs, source, settings)):
        done = _train_all(stages, source, settings)
    (run / STOP).unlink(missing_ok=True)
    if not done:
        return None
    material = seed_material(source, settings, 0)
    summary = summarise(run, settings, material)
    write_json(run / "summary.json", summary)
    write(run_content(run, settings, summary, material), run / "report.html")
    _keep_commentary(run, settings)
    return summary


def _train_all(stages: list[list[Job]], source: Source, settings: TrainSettings) -> bool:
    most = max(map(len, stages))
    at_once = min(settings.jobs or _default_jobs(settings), most)
    plain = _as_arrays(source)
    parallel = joblib.Parallel(n_jobs=at_once, initializer=keep_loaded)
    # Workers inherit the mask: an interrupt is for the run's own process.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        parallel.__enter__()
        if at_once > 1:
            parallel(joblib.delayed(int)() for _ in range(at_once))
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        return all(
            all(parallel(joblib.delayed(_train_one)(job, plain) for job in stage))
            for stage in stages
        )
    finally:
        parallel.__exit__(None, None, None)


def _default_jobs(settings: TrainSettings) -> int:
    return 1 if device_of(settings).type != "cpu" else os.cpu_count() or 1


def _train_one(job: Job, plain: dict[str, Any]) -> bool:
    # one thread each: small networks on several threads only get in each other's way
    torch.set_num_threads(1)
    parent = None
    if multiprocessing.parent_process() is not None:
        parent = os.getppid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run's own process asks us to stop

    def stopped() -> bool:
        orphaned = parent is not None and os.getppid() != parent
        return orphaned or (job.run / STOP).exists()

    if stopped():
        return False
    material = seed_material(_from_arrays(plain), job.settings, job.seed)
    return train_student(job, material, stopped)


def _as_arrays(source: Source) -> dict[str, Any]:
    # joblib maps large arrays into every worker instead of copying them there
    plain: dict[str, Any] = {part: _plain(getattr(source.splits, part)) for part in PARTS}
    plain["given"] = None if source.given is None else source.given.numpy()
    plain["contents"] = source.contents
    plain["trusted"] = None if source.trusted is None else _plain(source.trusted)
    return plain


def _from_arrays(plain: dict[str, Any]) -> Source:
    train, test = (_part(*plain[part]) for part in PARTS)
    given = None if plain["given"] is None else _tensor(plain["given"])
    trusted: Any = None if plain["trusted"] is None else _part(*plain["trusted"])
    parts: Any = KINDS[type(train)]
    return Source(parts(train, test), given, trusted, plain["contents"])


def _plain(of: Data) -> tuple[Any, dict[str, Any]]:
    named = {field.name: getattr(of, field.name) for field in fields(of)}
    return type(of), {name: _plain_value(value) for name, value in named.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.numpy()
    return _plain(value) if isinstance(value, ImageSet | TextSet) else value


def _part(made: Any, named: dict[str, Any]) -> Data:
    return made(**{name: _value(value) for name, value in named.items()})


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _tensor(value)
    nested = isinstance(value, tuple) and value and value[0] in KINDS
    return _part(*value) if nested else value


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array.copy())  # a mapped array must not be written to


def _steps(jobs: list[Job], source: Source, settings: TrainSettings) -> dict[Job, int]:
    material: Material = seed_material(source, settings, 0)
    streams = open_streams(material, settings, 0, torch.device("cpu"))
    length = len(streams.train)
    return {job: steps_of(job, length) for job in jobs}


@contextlib.contextmanager
def _stopped_by_interrupt(run: Path) -> Iterator[None]:
    def ask(*_: object) -> None:
        (run / STOP).touch()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _keep_commentary(run: Path, settings: TrainSettings) -> None:
    # that of the first teacher which learns
    taught = [Job(run, arm, 0, settings).folder / "commentary" for arm in settings.arms[1:]]
    first = next((folder for folder in taught if folder.exists()), None)
    if first is not None and not (run / "commentary").exists():
        fresh = run / ".commentary"
        shutil.rmtree(fresh, ignore_errors=True)
        with name_in_error(run / "commentary"):
            shutil.copytree(first, fresh)
            fresh.rename(run / "commentary")
