"""One student of a study, from its first step or from where it was stopped to its result."""

import json
import math
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from tutelage.functional.portable_state import state_of
from tutelage.logs import Reporter, TensorBoard
from tutelage.storage.atomic_files import atomic_path, write_atomically
from tutelage.storage.checkpoint import (
    check_checksum,
    load_checkpoint,
    name_damaged_file,
    save_checkpoint,
    with_checksum,
)
from tutelage.training.forward import Record
from tutelage.training.tutor import Tutor
from tutelage_cli.train.arms import device_of
from tutelage_cli.train.controls.choosing import Case, Stopped
from tutelage_cli.train.controls.courses import course_of
from tutelage_cli.train.controls.folds import TRIALS, judge_trial, write_unseen
from tutelage_cli.train.controls.rates import RATES, DivergedError, judge_rate, with_chosen_rate
from tutelage_cli.train.course import Course, seconds_now
from tutelage_cli.train.evaluation import Taken, accuracy, judge, log_likelihood
from tutelage_cli.train.job import Job as Job
from tutelage_cli.train.job import learning_rate as learning_rate
from tutelage_cli.train.material import Material, Streams, open_streams
from tutelage_cli.train.memory import Footprint
from tutelage_cli.train.tracked import epochs_kept, keep, write_tracked
from tutelage_cli.train.train_state import TrainState

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
OF_WEIGHTS = ("weight_right", "weight_wrong")
CHECKED = "held_out_log_likelihood"


def train_student(job: Job, material: Material, stopped: Callable[[], bool]) -> bool:
    """Train a student to its end, or until it is stopped."""
    if (job.folder / "result.json").exists():
        return True
    job.folder.mkdir(parents=True, exist_ok=True)
    job = with_chosen_rate(job)
    footprint = Footprint(device_of(job.settings))
    streams = open_streams(material, job.settings, job.seed, device_of(job.settings))
    try:
        course = course_of(Case(job, material, streams, stopped))
    except Stopped:
        return False
    standing = course.start
    if job.checkpoint.exists():
        with name_damaged_file(
            job.checkpoint,
            "Delete it to train this student anew.",
            what="is damaged, or training cannot go on from it",
        ):
            standing = _resume(job, course)
    try:
        if not _go_on(job, course, streams, standing, stopped, footprint):
            return False
        _write_history(job, standing)
    except DivergedError:
        if job.arm not in (RATES, TRIALS):
            raise
        judge_rate(job, None, standing.seconds)
        return True
    _judge(job, course, streams, material, standing)
    return True


def _judge(
    job: Job, course: Course, streams: Streams, material: Material, standing: TrainState
) -> None:
    if job.arm == RATES:
        judge_rate(job, log_likelihood(course.tutor, streams.held_out), standing.seconds)
        return
    if job.arm == TRIALS:
        judge_trial(job, course.tutor, streams, material, standing.seconds)
        return
    if job.fold is not None:
        write_unseen(job, course.tutor, streams, material, standing.seconds)
        return
    if standing.tracked is not None:
        write_tracked(job.folder, material.train, standing.tracked, job.settings.epochs)
    judge(
        job.folder,
        course.tutor,
        streams,
        material,
        standing.history,
        Taken(standing.seconds, standing.memory),
        counted=course.weights,
        on_checked=course.on_checked,
    )


def _go_on(
    job: Job,
    course: Course,
    streams: Streams,
    standing: TrainState,
    stopped: Callable[[], bool],
    footprint: Footprint,
) -> bool:
    tutor = course.tutor
    with _reporter(job, tutor) as reporter:
        if standing.epoch >= course.epochs and not job.checkpoint.exists():
            _save(job, tutor, standing)  # nothing is trained
        while standing.epoch < course.epochs:
            footprint.forget()  # students are looked at in larger batches, between epochs
            whole = _train_epoch(job, course, reporter, streams, standing, stopped)
            standing.note_memory(footprint.peak())
            if whole:
                _finish_epoch(job, course, streams, standing)
                reporter.log(_of_epoch(standing.history[-1]))
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
    course: Course,
    reporter: Reporter,
    streams: Streams,
    standing: TrainState,
    stopped: Callable[[], bool],
) -> bool:
    tutor, of, own = course.tutor, course.known, standing.epoch - course.first
    for group in tutor.optimizer.param_groups:
        group["lr"] = course.rates[own]
    tutor.student.train()
    told, saved = 0.0, time.monotonic()
    kept = epochs_kept(job.settings.epochs)
    column = kept.index(standing.epoch + 1) if standing.epoch + 1 in kept else None
    device = device_of(job.settings)
    batches = course.train.epoch(own, standing.batch)
    started = seconds_now(device)
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
            with atomic_path(job.folder / "progress") as part:
                part.write_text(f"{tutor.steps}", encoding="ascii")
            if stopped() and standing.batch < len(course.train):
                break
            if told - saved > SAVED_EVERY:
                started = _lap(standing, device, started)
                _save(job, tutor, standing)
                saved = time.monotonic()
    _lap(standing, device, started)
    return standing.batch == len(course.train)


def _lap(standing: TrainState, device: torch.device, started: float) -> float:
    now = seconds_now(device)
    standing.seconds += now - started
    return now


def _note(standing: TrainState, record: Record, wrong: Tensor | None) -> None:
    standing.loss += float(record.loss)
    if wrong is None:
        parts = [torch.ones_like(record.weights, dtype=torch.bool)]
    else:
        mistaken = wrong[record.ids.cpu()].to(record.weights.device)
        parts = [~mistaken, mistaken]
    for place, rows in enumerate(parts):
        standing.weights[place] += float(record.weights[rows].sum())
        standing.rows[place] += float(rows.sum())


def _finish_epoch(job: Job, course: Course, streams: Streams, standing: TrainState) -> None:
    tutor = course.tutor
    entry: dict[str, float | int] = {
        "epoch": standing.epoch + 1,
        "step": tutor.steps,
        "train_loss": standing.loss / len(course.train),
    }
    if job.fold is None:
        held_out = accuracy(tutor, streams.held_out)
        tutor.best_accuracy = max(tutor.best_accuracy, held_out)
        entry |= {
            "held_out_accuracy": held_out,
            CHECKED: log_likelihood(tutor, streams.held_out),
            "test_accuracy": accuracy(tutor, streams.curve),
        }
    entry["seconds"] = standing.seconds
    if not math.isfinite(standing.loss):
        raise DivergedError(
            f"The student {job.title}, diverged in epoch {standing.epoch + 1}: "
            f"its loss is {standing.loss}. Lower --lr (now {job.settings.lr:g})."
        )
    if course.known.wrong is not None:
        for name, total, rows in zip(OF_WEIGHTS, standing.weights, standing.rows, strict=True):
            if rows:
                entry[name] = total / rows
    if job.arm == "untaught" and "early-stopped" in job.settings.arms:
        _keep_best(job, tutor, standing, entry)
    standing.history.append(entry)
    standing.epoch, standing.batch, standing.loss = standing.epoch + 1, 0, 0.0
    standing.weights, standing.rows = [0.0, 0.0], [0.0, 0.0]
    _write_history(job, standing)


def _keep_best(
    job: Job, tutor: Tutor, standing: TrainState, entry: Mapping[str, float]
) -> None:
    # the same again where the run is killed before the epoch is saved
    if all(entry[CHECKED] > before[CHECKED] for before in standing.history):
        state = with_checksum("student", state_of(tutor.student))
        save_checkpoint(job.best, state | {"epoch": entry["epoch"]})


def _write_history(job: Job, standing: TrainState) -> None:
    lines = "".join(json.dumps(line) + "\n" for line in standing.history)
    write_atomically(job.folder / "metrics.jsonl", lines.encode())


def _save(job: Job, tutor: Tutor, standing: TrainState) -> None:
    state = with_checksum("tutor", tutor.state_dict()) | {"standing": vars(standing)}
    save_checkpoint(job.checkpoint, state)


def _resume(job: Job, course: Course) -> TrainState:
    tutor, new, batches = course.tutor, course.start, len(course.train)
    state = load_checkpoint(job.checkpoint, next(tutor.student.parameters()).device)
    tutor.load_state_dict(check_checksum("tutor", state))
    standing = TrainState(**state["standing"])
    standing.require_numbers()
    places = standing.epoch, standing.batch, tutor.steps
    epoch, batch, steps = places
    if any(type(place) is not int for place in places) or not (
        course.first <= epoch <= course.epochs
        and 0 <= batch <= batches
        and steps == (epoch - course.first) * batches + batch
        and len(standing.history) == epoch
    ):
        raise ValueError(f"it stands at epoch {epoch!r:.20}, batch {batch!r:.20}")
    if standing.tracked is not None:  # None: begun by an earlier release, or of a control
        if new.tracked is None or standing.tracked.shape != new.tracked.shape:
            raise ValueError("it tracked other examples or epochs")
        standing.tracked = standing.tracked.to(new.tracked)
    return standing
