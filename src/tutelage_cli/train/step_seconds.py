"""The seconds that students are expected to take, from a few measured steps."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch

from tutelage.training.tutor import Tutor
from tutelage_cli.train.controls.job_stages import steps_of
from tutelage_cli.train.job import Job
from tutelage_cli.train.material import Material, Source, Streams, open_streams, seed_material
from tutelage_cli.train.settings import TrainSettings

ENOUGH = 0.3
"""seconds of measured steps after which no more are taken"""
MOST_CYCLES = 4
"""measured cycles of a teacher step and the student steps before it; the first one warms up"""
FORWARD = 1 / 3
"""seconds of a forward pass in those of an untaught step, which has a backward pass too"""


class Work(NamedTuple):
    """What training a student takes."""

    steps: int
    seconds: float
    """NaN where no step was measured"""


def seconds_of_step(tutor: Tutor, streams: Streams) -> float:
    """Mean seconds of steps, which are taken, on one thread; teacher steps included."""
    every = 1 if tutor.teacher_updater is None else tutor.teacher_updater.every
    batch = next(streams.train.epoch(0))
    began = time.perf_counter()
    seconds = 0.0
    with _one_thread():
        for _ in range(MOST_CYCLES):
            start = time.perf_counter()
            for _ in range(every):
                held_out = streams.held_out.draw(0) if tutor.wants_held_out else None
                float(tutor.step(batch, held_out).loss)  # waits for the device
            now = time.perf_counter()
            seconds = now - start
            if now - began > ENOUGH:
                break
    return seconds / every


def expected_work(
    stages: Sequence[Sequence[Job]],
    source: Source,
    settings: TrainSettings,
    seconds: Mapping[str, float],
) -> list[dict[Job, Work]]:
    """Steps and seconds of every student, by stage.

    Arms of which ``seconds`` has no step cost what an untaught one does.
    """
    material: Material = seed_material(source, settings, 0)
    streams = open_streams(material, settings, 0, torch.device("cpu"))
    length, untaught = len(streams.train), seconds.get("untaught", float("nan"))
    evaluated = 2 * len(streams.held_out) + len(streams.curve)  # batches after each epoch

    def work(job: Job) -> Work:
        steps = steps_of(job, length)
        step = seconds.get(job.arm, untaught)
        if job.fold is None:
            step += untaught * FORWARD * evaluated / length
        return Work(steps, steps * step)

    return [{job: work(job) for job in stage} for stage in stages]


@contextmanager
def _one_thread() -> Iterator[None]:
    # as the worker processes have
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
