"""Trains one student, from its start or its checkpoint, and writes its result."""

import json
import math
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from tutelage.functional.portable_state import state_of
from tutelage.logs import Reporter
from tutelage.storage.atomic_files import atomic_path, write_atomically
from tutelage.storage.checkpoint import (
    check_checksum,
    load_checkpoint,
    name_damaged_file,
    save_checkpoint,
    with_checksum,
)
from tutelage.training.forward import StepResult
from tutelage.training.tutor import Tutor
from tutelage_cli.runner.trackers import open_log
from tutelage_cli.train.arms import device_of
from tutelage_cli.train.controls.folds import (
    DISTILLED_TRIALS,
    TRIALS,
    write_out_of_fold,
    write_trial_result,
)
from tutelage_cli.train.controls.plans import plan_of
from tutelage_cli.train.controls.rates import (
    RATES,
    DivergedError,
    with_chosen_rate,
    write_rate_result,
)
from tutelage_cli.train.controls.tuning import ControlInputs, Stopped
from tutelage_cli.train.evaluation import Cost, accuracy, log_likelihood, write_result
from tutelage_cli.train.example_history import epochs_kept, record_step, write_example_history
from tutelage_cli.train.job import Job
from tutelage_cli.train.material import Material, Streams, open_streams
from tutelage_cli.train.memory import PeakMemory
from tutelage_cli.train.plan import TrainingPlan, TrainState, seconds_now

POLL_EVERY = 0.5
"""seconds between two progress files, and two checks whether to stop"""
SAVE_EVERY = 60.0
"""seconds between two checkpoints"""
LOGGED_KEYS = (
    "train_loss",
    "held_out_accuracy",
    "test_accuracy",
    "weight_right",
    "weight_wrong",
)
"""entries of an epoch that are logged"""
WEIGHT_KEYS = ("weight_right", "weight_wrong")
HELD_OUT_KEY = "held_out_log_likelihood"


def train_student(job: Job, material: Material, stopped: Callable[[], bool]) -> bool:
    """Train a student; False if it was stopped before its end."""
    if (job.folder / "result.json").exists():
        return True
    job.folder.mkdir(parents=True, exist_ok=True)
    job = with_chosen_rate(job)
    footprint = PeakMemory(device_of(job.settings))
    streams = open_streams(material, job.settings, job.seed, device_of(job.settings))
    try:
        plan = plan_of(ControlInputs(job, material, streams, stopped))
    except Stopped:
        return False
    state = plan.start
    if job.checkpoint.exists():
        with name_damaged_file(
            job.checkpoint,
            "Delete it to train this student anew.",
            what="is damaged, or training cannot go on from it",
        ):
            state = _resume(job, plan)
    try:
        if not _run_epochs(job, plan, streams, state, stopped, footprint):
            return False
        _write_history(job, state)
    except DivergedError:
        if job.arm in (RATES, TRIALS):
            write_rate_result(job, None, state.seconds)
            return True
        if job.arm != DISTILLED_TRIALS:
            raise
    _write_results(job, plan, streams, material, state)
    return True


def _write_results(
    job: Job, plan: TrainingPlan, streams: Streams, material: Material, state: TrainState
) -> None:
    if job.arm == RATES:
        write_rate_result(job, log_likelihood(plan.tutor, streams.held_out), state.seconds)
        return
    if job.arm == TRIALS:
        write_trial_result(job, plan.tutor, streams, material, state.seconds)
        return
    if job.fold is not None:
        write_out_of_fold(job, plan.tutor, streams, material, state.seconds)
        return
    if state.tracked is not None:
        write_example_history(job.folder, material.train, state.tracked, job.settings.epochs)
    write_result(
        job.folder,
        plan.tutor,
        streams,
        material,
        state.history,
        Cost(state.seconds, state.memory),
        weights=plan.weights,
        on_checked=plan.on_checked,
    )


def _run_epochs(
    job: Job,
    plan: TrainingPlan,
    streams: Streams,
    state: TrainState,
    stopped: Callable[[], bool],
    footprint: PeakMemory,
) -> bool:
    tutor = plan.tutor
    with _reporter(job, tutor) as reporter:
        if state.epoch >= plan.epochs and not job.checkpoint.exists():
            _save(job, tutor, state)  # nothing is trained
        while state.epoch < plan.epochs:
            footprint.forget()  # evaluation uses larger batches
            finished = _train_epoch(job, plan, reporter, streams, state, stopped)
            state.note_memory(footprint.peak())
            if finished:
                _finish_epoch(job, plan, streams, state)
                last = state.history[-1]
                reporter.log({f"epoch/{k}": last[k] for k in LOGGED_KEYS if k in last})
            _save(job, tutor, state)
            if not finished:
                return False
    return True


def _reporter(job: Job, tutor: Tutor) -> Reporter:
    if not job.log_every:
        return Reporter(tutor)
    step = tutor.steps + 1
    log = open_log(job.log, job.folder, group=job.run, title=job.title, step=step)
    return Reporter(tutor, log, every=job.log_every)


def _train_epoch(
    job: Job,
    plan: TrainingPlan,
    reporter: Reporter,
    streams: Streams,
    state: TrainState,
    stopped: Callable[[], bool],
) -> bool:
    tutor, index, epoch = plan.tutor, plan.index, state.epoch - plan.first
    for group in tutor.optimizer.param_groups:
        group["lr"] = plan.rates[epoch]
    tutor.student.train()
    reported, saved = 0.0, time.monotonic()
    recorded = epochs_kept(job.settings.epochs)
    column = recorded.index(state.epoch + 1) if state.epoch + 1 in recorded else None
    device = device_of(job.settings)
    batches = plan.train.epoch(epoch, state.batch)
    started = seconds_now(device)
    for batch in batches:
        held_out = streams.held_out.draw(tutor.steps) if tutor.wants_held_out else None
        record = tutor.step(batch, held_out)
        _add_step(state, record, index.wrong)
        if column is not None and state.tracked is not None:
            record_step(state.tracked, record, index.row[record.ids.cpu()], column)
        reporter(record)
        state.batch += 1
        if time.monotonic() - reported > POLL_EVERY:
            reported = time.monotonic()
            with atomic_path(job.folder / "progress") as part:
                part.write_text(f"{tutor.steps}", encoding="ascii")
            if stopped() and state.batch < len(plan.train):
                break
            if reported - saved > SAVE_EVERY:
                started = _add_time(state, device, started)
                _save(job, tutor, state)
                saved = time.monotonic()
    _add_time(state, device, started)
    return state.batch == len(plan.train)


def _add_time(state: TrainState, device: torch.device, started: float) -> float:
    now = seconds_now(device)
    state.seconds += now - started
    return now


def _add_step(state: TrainState, record: StepResult, wrong: Tensor | None) -> None:
    state.loss += float(record.loss)
    if wrong is None:
        parts = [torch.ones_like(record.weights, dtype=torch.bool)]
    else:
        mistaken = wrong[record.ids.cpu()].to(record.weights.device)
        parts = [~mistaken, mistaken]
    for place, rows in enumerate(parts):
        state.weights[place] += float(record.weights[rows].sum())
        state.rows[place] += float(rows.sum())


def _finish_epoch(job: Job, plan: TrainingPlan, streams: Streams, state: TrainState) -> None:
    tutor = plan.tutor
    entry: dict[str, float | int] = {
        "epoch": state.epoch + 1,
        "step": tutor.steps,
        "train_loss": state.loss / len(plan.train),
    }
    if job.fold is None:
        held_out = accuracy(tutor, streams.held_out)
        tutor.best_accuracy = max(tutor.best_accuracy, held_out)
        entry |= {
            "held_out_accuracy": held_out,
            HELD_OUT_KEY: log_likelihood(tutor, streams.held_out),
            "test_accuracy": accuracy(tutor, streams.curve),
        }
    entry["seconds"] = state.seconds
    if not math.isfinite(state.loss):
        raise DivergedError(
            f"The student {job.title}, diverged in epoch {state.epoch + 1}: "
            f"its loss is {state.loss}. Lower --lr (now {job.settings.lr:g})."
        )
    if plan.index.wrong is not None:
        for name, total, rows in zip(WEIGHT_KEYS, state.weights, state.rows, strict=True):
            if rows:
                entry[name] = total / rows
    if job.arm == "untaught" and "early-stopped" in job.settings.arms:
        _keep_best(job, tutor, state, entry)
    state.history.append(entry)
    state.epoch, state.batch, state.loss = state.epoch + 1, 0, 0.0
    state.weights, state.rows = [0.0, 0.0], [0.0, 0.0]
    _write_history(job, state)


def _keep_best(job: Job, tutor: Tutor, state: TrainState, entry: Mapping[str, float]) -> None:
    # written again if the run is killed before the epoch is saved
    if all(entry[HELD_OUT_KEY] > before[HELD_OUT_KEY] for before in state.history):
        checkpoint = with_checksum("student", state_of(tutor.student))
        save_checkpoint(job.best, checkpoint | {"epoch": entry["epoch"]})


def _write_history(job: Job, state: TrainState) -> None:
    lines = "".join(json.dumps(line) + "\n" for line in state.history)
    write_atomically(job.folder / "metrics.jsonl", lines.encode())


def _save(job: Job, tutor: Tutor, state: TrainState) -> None:
    checkpoint = with_checksum("tutor", tutor.state_dict()) | {"state": vars(state)}
    save_checkpoint(job.checkpoint, checkpoint)


def _resume(job: Job, plan: TrainingPlan) -> TrainState:
    tutor, new, batches = plan.tutor, plan.start, len(plan.train)
    checkpoint = load_checkpoint(job.checkpoint, next(tutor.student.parameters()).device)
    tutor.load_state_dict(check_checksum("tutor", checkpoint))
    state = TrainState(**checkpoint["state"])
    state.require_numbers()
    places = state.epoch, state.batch, tutor.steps
    epoch, batch, steps = places
    if any(type(place) is not int for place in places) or not (
        plan.first <= epoch <= plan.epochs
        and 0 <= batch <= batches
        and steps == (epoch - plan.first) * batches + batch
        and len(state.history) == epoch
    ):
        raise ValueError(f"it is at epoch {epoch!r:.20}, batch {batch!r:.20}")
    if state.tracked is not None:  # None: begun by an earlier release, or of a control
        if new.tracked is None or state.tracked.shape != new.tracked.shape:
            raise ValueError("it tracked other examples or epochs")
        state.tracked = state.tracked.to(new.tracked)
    return state
