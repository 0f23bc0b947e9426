"""Checks of a study before it starts."""

import hashlib
import re

import torch
from torch import nn

from tutelage.errors import UnsupportedStudentError, UsageError, in_one_line
from tutelage.functional.module_state import modes_kept
from tutelage.teachers.steps_taken import FEWEST_TEACHER_STEPS
from tutelage.training.tutor import Tutor
from tutelage.types import Batch
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.mapped import chunks
from tutelage_cli.runner.workers import process_count
from tutelage_cli.train.arms import build_tutor, device_of
from tutelage_cli.train.controls.job_stages import CROSS_FITTED, ON_FOLDS
from tutelage_cli.train.data_parallel import EMPTY_INPUTS_HINT
from tutelage_cli.train.dry_run import dry_run
from tutelage_cli.train.freeze import Notify
from tutelage_cli.train.held_out import has_copies
from tutelage_cli.train.material import (
    Material,
    Source,
    Streams,
    about_given_test_labels,
    open_streams,
    read_source,
    seed_material,
    with_notes,
)
from tutelage_cli.train.names import CONTROLS
from tutelage_cli.train.read_data import check_kind, kind_of
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.step_seconds import seconds_of_step
from tutelage_cli.train.students import kind, student_name

FAULTS = (RuntimeError, ValueError, IndexError, AssertionError, UnsupportedStudentError)
"""of a step where student, data and settings do not fit; all but the last are torch's own"""


def check(
    settings: TrainSettings,
    notify: Notify = lambda _: None,
    seconds: dict[str, float] | None = None,
) -> Source:
    """Read the data and run a few steps of every arm, so that errors show at once.

    ``seconds`` gets those of a step, by arm.
    """
    check_device(settings)
    check_kind(settings, data_kind := kind_of(settings))
    dry_run(settings, data_kind)
    source = read_source(settings, notify)
    material = seed_material(source, settings, 0)
    streams = open_streams(material, settings, 0, device_of(settings))
    check_batch(settings, material)
    _check_controls(settings, material)
    for arm in settings.arms:
        if arm not in CONTROLS:  # these train the untaught student on as many examples
            tutor = _check_arm(arm, settings, material, streams)
            if line := few_teacher_steps(arm, tutor, len(streams.train) * settings.epochs):
                notify(line)
            if seconds is not None:
                seconds[arm] = seconds_of_step(tutor, streams)
    if not (line := about_given_test_labels(source, settings)):
        return source
    notify(line)
    return with_notes(source, line)


def few_teacher_steps(arm: str, tutor: Tutor, steps: int) -> str:
    """A line on a teacher that learns too seldom in a run to learn much; empty otherwise."""
    if tutor.teacher_updater is None:
        return ""
    every = tutor.teacher_updater.every * tutor.teacher_updater.aggregate
    if (taken := steps // every) >= FEWEST_TEACHER_STEPS:
        return ""
    return (
        f"{arm} takes {taken} steps only in {steps} student steps, which is little to learn "
        "from: give more --epochs, or a smaller --teacher-every or --batch-size."
    )


def fingerprint(source: Source) -> str:
    """A digest of the data, by which a resumed run notices that they have changed."""
    digest = hashlib.sha256()
    trusted = () if source.trusted is None else (source.trusted,)
    for part in (source.splits.train, source.splits.test, *trusted):
        for tensor in part.tensors():
            for rows in chunks(tensor):
                digest.update(rows.numpy().tobytes())
    if source.contents is not None and has_copies(source.contents):
        digest.update(b"copies of what judges are left out")  # earlier releases had them
    if source.given is not None:
        digest.update(source.given.numpy().tobytes())
    return digest.hexdigest()


def check_batch(settings: TrainSettings, material: Material) -> None:
    """Refuse a batch that the training set cannot fill."""
    if settings.batch_size > len(material.train):
        raise UsageError(
            f"--batch-size is {settings.batch_size}, but there are {len(material.train)} "
            f"{kind(material.train)} to train on: give that or less."
        )


def check_device(settings: TrainSettings) -> None:
    """Refuse a device that is unknown or not available."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", settings.device):
        raise UsageError(f"Unknown device '{settings.device}'. Allowed: cpu, cuda, auto.")
    if settings.device.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError("--device is cuda, but no GPU can be used here: give cpu or auto.")


def _check_controls(settings: TrainSettings, material: Material) -> None:
    named = [arm for arm in settings.arms if arm in (*ON_FOLDS, *CROSS_FITTED)]
    if named and len(material.train) < settings.folds:
        raise UsageError(
            f"{', '.join(named)} train students on {settings.folds} folds, but there are "
            f"{len(material.train)} {kind(material.train)} to train on: give --controls none, "
            "or others."
        )


def _check_arm(
    arm: str, settings: TrainSettings, material: Material, streams: Streams
) -> Tutor:
    steps = len(streams.train) * settings.epochs
    tutor = build_tutor(arm, 0, material.train, settings, steps)
    every = 1 if tutor.teacher_updater is None else tutor.teacher_updater.every
    if steps < every:
        raise UsageError(
            f"The run has {steps} student steps, but the teacher {arm} learns after every "
            f"{every}: give --teacher-every {steps} or less, or more epochs."
        )
    # the last batch is the smallest, and a teacher step needs a held-out batch
    last = next(streams.train.epoch(0, len(streams.train) - 1))
    fewest = min(len(last.ids), len(streams.held_out.draw(0).ids))
    if fewest < process_count():
        _check_no_rows(tutor.student, last, fewest)
    try:
        for _ in range(every):
            tutor.step(last, streams.held_out.draw(0) if tutor.wants_held_out else None)
    except UsageError:
        raise
    except FAULTS as error:
        raise UsageError(_error_message(arm, settings, material, error)) from error
    return tutor


def _check_no_rows(student: nn.Module, batch: Batch, fewest: int) -> None:
    """Refuse a student that cannot take the inputs of a process that gets none of a batch."""
    try:
        with torch.no_grad(), modes_kept(student):
            student.eval()(batch.inputs[:0])
    except FAULTS as error:
        raise UsageError(
            f"A batch has {fewest} example{'s' * (fewest != 1)} only, so that some of "
            f"torchrun's {process_count()} processes get none, but the student fails on inputs "
            f"of no rows: {in_one_line(error).rstrip('.')}. {EMPTY_INPUTS_HINT}, or give "
            "another --batch-size or --held-out."
        ) from error


def _error_message(
    arm: str, settings: TrainSettings, material: Material, error: Exception
) -> str:
    reason = in_one_line(error)
    if isinstance(error, UnsupportedStudentError):
        return reason + (" Here: --layers all." if "layers='last'" in reason else "")
    if "more than 1 value per channel" in reason:
        return _single_example_message(arm, settings, material)
    shape = "texts"
    if isinstance(material.train, ImageSet):
        _, channels, *sides = material.train.images.shape
        size = "x".join(map(str, [*sides, channels]))
        shape = f"{size} images (height, width, channels)"
    elif isinstance(material.train, FeatureSet):
        shape = f"vectors of {material.train.features.shape[1]} numbers"
    stored = arm == "commentary"
    prefix = f"The commentary {settings.commentary} does not fit: " if stored else ""
    return (
        f"{prefix}{student_name(settings, material.train)} taught by {arm} cannot be trained "
        f"on {shape} with --batch-size {settings.batch_size} and {len(material.held_out)} "
        f"held-out {kind(material.train)}: {reason}"
    )


def _single_example_message(arm: str, settings: TrainSettings, material: Material) -> str:
    # batch normalisation in training mode needs two values per channel
    flag = "--held-out" if len(material.held_out) == 1 else "--batch-size"
    return (
        f"{student_name(settings, material.train)} taught by {arm} takes the mean of each "
        f"batch (batch normalisation), but {flag} 1 makes batches of one "
        f"{kind(material.train).removesuffix('s')}: give {flag} 2 or more, or a student "
        f"without it{', such as linear' if isinstance(material.train, FeatureSet) else ''}."
    )
