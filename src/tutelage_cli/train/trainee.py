"""One student of a study, from its first step or from where it was stopped to its result."""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.logs import Reporter, TensorBoard
from tutelage.storage.atomic_files import write_atomically, written_whole
from tutelage.storage.checkpoint import (
    load_checkpoint,
    save_checkpoint,
    sealed,
    telling_damage,
    unsealed,
)
from tutelage.training.forward import Record
from tutelage.training.tutor import Tutor
from tutelage_cli.train.arms import build_tutor, device_of
from tutelage_cli.train.evaluation import Taken, accuracy, judge
from tutelage_cli.train.material import Material, Streams, open_streams
from tutelage_cli.train.memory import Footprint
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.tracked import ById, by_id, epochs_kept, fresh, keep, write_tracked
from tutelage_cli.train.train_state import Standing

TOLD_EVERY = 0.5
"""seconds between two notes of how far a student is, and two looks whether to stop"""
SAVED_EVERY = 60.0
"""seconds of training that are lost at most where the process is killed"""
TOLD_OF_EPOCH = (
    "train_loss",
    "held_out_accuracy",
    "test_accuracy",
    "weight_right",
    "weight_wrong",
)
"""what TensorBoard gets of an epoch's entry"""


@dataclass(frozen=True)
class Job:
    """One student to train."""

    run: Path
    """the run's folder"""
    arm: str
    seed: int
    settings: TrainSettings
    log_every: int = 0
    """student steps between two that TensorBoard is told of; 0: it is told nothing"""

    @property
    def folder(self) -> Path:
        """The student's own folder."""
        return self.run / "students" / f"{self.arm}-seed{self.seed}"

    @property
    def checkpoint(self) -> Path:
        """Where its training stands."""
        return self.folder / "checkpoint" / "state.pt"


def train_student(job: Job, material: Material, stopped: Callable[[], bool]) -> bool:
    """Train a student to its end, or until it is stopped.

    Args:
        job: Which student.
        material: The data of its seed.
        stopped: Whether to stop; asked every ``TOLD_EVERY`` seconds.

    Returns:
        Whether it reached the end, with its result on disk; otherwise a checkpoint is.
    """
    if (job.folder / "result.json").exists():
        return True
    job.folder.mkdir(parents=True, exist_ok=True)
    settings = job.settings
    footprint = Footprint(device_of(settings))
    streams = open_streams(material, settings, job.seed, device_of(settings))
    steps = len(streams.train) * settings.epochs
    tutor = build_tutor(job.arm, job.seed, material.train, settings, steps)
    standing = Standing(tracked=fresh(len(material.train), settings.epochs))
    if job.checkpoint.exists():
        with telling_damage(
            job.checkpoint,
            "Delete it to train this student anew.",
            what="is damaged, or training cannot go on from it",
        ):
            standing = _resume(job, tutor, len(streams.train), standing)
    known = by_id(material.train, material.wrong)
    if not _go_on(job, tutor, streams, standing, known, stopped, footprint):
        return False
    _write_history(job, standing)
    if standing.tracked is not None:
        write_tracked(job.folder, material.train, standing.tracked, settings.epochs)
    taken = Taken(standing.seconds, standing.memory)
    judge(job.folder, tutor, streams, material, standing.history, taken)
    return True


def _go_on(
    job: Job,
    tutor: Tutor,
    streams: Streams,
    standing: Standing,
    of: ById,
    stopped: Callable[[], bool],
    footprint: Footprint,
) -> bool:
    with _reporter(job, tutor) as reporter:
        while standing.epoch < job.settings.epochs:
            footprint.forget()  # students are looked at in larger batches, between epochs
            whole = _train_epoch(job, reporter, streams, standing, of, stopped)
            standing.note_memory(footprint.peak())
            if whole:
                _finish_epoch(job, tutor, streams, standing, of.wrong is not None)
                reporter.tell(_of_epoch(standing.history[-1]))
            _save(job, tutor, standing)
            if not whole:
                return False
    return True


def _reporter(job: Job, tutor: Tutor) -> Reporter:
    if not job.log_every:
        return Reporter(tutor)
    board = TensorBoard(job.folder / "tensorboard", from_step=tutor.steps + 1)
    return Reporter(tutor, board, every=job.log_every)


def _of_epoch(entry: Mapping[str, float | int]) -> dict[str, float]:
    return {f"epoch/{name}": entry[name] for name in TOLD_OF_EPOCH if name in entry}


def _train_epoch(
    job: Job,
    reporter: Reporter,
    streams: Streams,
    standing: Standing,
    of: ById,
    stopped: Callable[[], bool],
) -> bool:
    tutor = reporter.tutor
    for group in tutor.optimizer.param_groups:
        group["lr"] = learning_rate(job.settings, standing.epoch)
    tutor.student.train()
    told, saved = 0.0, time.monotonic()
    kept = epochs_kept(job.settings.epochs)
    column = kept.index(standing.epoch + 1) if standing.epoch + 1 in kept else None
    device = device_of(job.settings)
    batches = streams.train.epoch(standing.epoch, standing.batch)
    started = _clock(device)
    for batch in batches:
        held_out = streams.held_out.draw(tutor.steps) if tutor.wants_held_out else None
        record = tutor.step(batch, held_out)
        _note(standing, record, of.wrong)
        if column is not None and standing.tracked is not None:
            keep(standing.tracked, record, of.place[record.ids.cpu()], column)
        reporter(record)
        standing.batch += 1
        if time.monotonic() - told > TOLD_EVERY:
            told = time.monotonic()
            with written_whole(job.folder / "progress") as part:
                part.write_text(f"{tutor.steps}", encoding="ascii")
            if stopped() and standing.batch < len(streams.train):
                break
            if told - saved > SAVED_EVERY:
                started = _lap(standing, device, started)
                _save(job, tutor, standing)
                saved = time.monotonic()
    _lap(standing, device, started)
    return standing.batch == len(streams.train)


def _lap(standing: Standing, device: torch.device, started: float) -> float:
    now = _clock(device)
    standing.seconds += now - started
    return now


def _note(standing: Standing, record: Record, wrong: Tensor | None) -> None:
    standing.loss += float(record.loss)
    if wrong is None:
        parts = [torch.ones_like(record.weights, dtype=torch.bool)]
    else:
        mistaken = wrong[record.ids.cpu()].to(record.weights.device)
        parts = [~mistaken, mistaken]
    for place, rows in enumerate(parts):
        standing.weights[place] += float(record.weights[rows].sum())
        standing.rows[place] += float(rows.sum())


def _finish_epoch(
    job: Job, tutor: Tutor, streams: Streams, standing: Standing, known: bool
) -> None:
    held_out = accuracy(tutor, streams.held_out)
    tutor.best_accuracy = max(tutor.best_accuracy, held_out)
    right, wrong = (
        total / rows if rows else float("nan")
        for total, rows in zip(standing.weights, standing.rows, strict=True)
    )
    entry = {
        "epoch": standing.epoch + 1,
        "step": tutor.steps,
        "train_loss": standing.loss / len(streams.train),
        "held_out_accuracy": held_out,
        "test_accuracy": accuracy(tutor, streams.curve),
        "seconds": standing.seconds,
    }
    if not math.isfinite(standing.loss):
        raise UsageError(
            f"The student {job.arm}, seed {job.seed}, diverged in epoch {standing.epoch + 1}: "
            f"its loss is {standing.loss}. Lower --lr (now {job.settings.lr:g})."
        )
    named = {"weight_right": right, "weight_wrong": wrong} if known else {}
    entry |= {name: value for name, value in named.items() if value == value}
    standing.history.append(entry)
    standing.epoch, standing.batch, standing.loss = standing.epoch + 1, 0, 0.0
    standing.weights, standing.rows = [0.0, 0.0], [0.0, 0.0]
    _write_history(job, standing)


def _write_history(job: Job, standing: Standing) -> None:
    lines = "".join(json.dumps(line) + "\n" for line in standing.history)
    write_atomically(job.folder / "metrics.jsonl", lines.encode())


def learning_rate(settings: TrainSettings, epoch: int) -> float:
    """The student's learning rate in an epoch.

    Args:
        settings: The study's settings.
        epoch: From 0.

    Returns:
        ``lr``, divided by ten for every share of the run in ``decay_at`` that has passed.
    """
    passed = sum(epoch >= int(share * settings.epochs) for share in settings.decay_at)
    return settings.lr * 0.1**passed


def _clock(device: torch.device) -> float:
    """Seconds that nobody else's work adds to, as far as the device allows it.

    Args:
        device: Where the student is trained.

    Returns:
        Time of this process's CPU on the CPU, wall time on an accelerator.
    """
    if device.type == "cpu":
        return time.process_time()
    torch.accelerator.synchronize(device)
    return time.perf_counter()


def _save(job: Job, tutor: Tutor, standing: Standing) -> None:
    state = sealed("tutor", tutor.state_dict()) | {"standing": vars(standing)}
    save_checkpoint(job.checkpoint, state)


def _resume(job: Job, tutor: Tutor, batches: int, new: Standing) -> Standing:
    state = load_checkpoint(job.checkpoint, next(tutor.student.parameters()).device)
    tutor.load_state_dict(unsealed("tutor", state))
    standing = Standing(**state["standing"])
    standing.require_numbers()
    places = standing.epoch, standing.batch, tutor.steps
    epoch, batch, steps = places
    if any(type(place) is not int for place in places) or not (
        0 <= epoch <= job.settings.epochs
        and 0 <= batch <= batches
        and steps == epoch * batches + batch
        and len(standing.history) == epoch
    ):
        raise ValueError(f"it stands at epoch {epoch!r:.20}, batch {batch!r:.20}")
    if standing.tracked is not None:  # None: begun by an earlier release
        assert new.tracked is not None
        standing.tracked = standing.tracked.to(new.tracked)
        if standing.tracked.shape != new.tracked.shape:
            raise ValueError("it tracked other examples or epochs")
    return standing
