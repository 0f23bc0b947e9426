"""Learning a commentary: what is checked, what is kept after each round, what is stored."""

import io
import pickle
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tutelage.commentaries import Provenance, save_commentary
from tutelage.config import to_plain
from tutelage.errors import UsageError
from tutelage.learning.course import COURSES, Course
from tutelage.learning.settings import LearnSettings
from tutelage.runs import create_run, exists, run_settings, stored_fact, write_atomically
from tutelage.study.arms import device_of
from tutelage.study.check import check_batch, check_device, fingerprint
from tutelage.study.material import Source, Streams, open_streams, read_source, seed_material

UNFIT = (RuntimeError, ValueError, AssertionError)
"""what a layer or a teacher raises that does not fit the images"""
Tell = Callable[[int, float], None]
"""is told the number of a finished round, from 1, and its held-out loss"""


def learn(settings: LearnSettings, out: Path, tell: Tell) -> Path:
    """Learn a commentary, going on where an earlier attempt stopped.

    Args:
        settings: What was asked.
        out: The commentary's folder; ``out``.learning holds what is not yet finished.
        tell: Told of every finished round.

    Returns:
        ``out``.

    Raises:
        UsageError: If a round's loss is not finite.
    """
    source, streams = _opened(settings)
    course: Course = COURSES[settings.algorithm](settings, streams)
    kept = out.with_name(f"{out.name}.learning")
    _begin(kept, settings, source)
    losses, seconds = _resume(kept / "state.pt", course)
    for number in range(len(losses), settings.rounds):
        started = time.perf_counter()
        losses.append(_round(course, number, settings))
        seconds += time.perf_counter() - started
        if losses[-1] != losses[-1]:
            raise UsageError(
                f"Learning diverged in round {number + 1}: the held-out loss is {losses[-1]}. "
                f"Lower --lr (now {settings.lr:g}) or --teacher-lr."
            )
        _keep(kept / "state.pt", course, losses, seconds)
        tell(number + 1, losses[-1])
    save_commentary(course.teacher, out, _came(settings, streams, course, losses, seconds))
    shutil.rmtree(kept)
    return out


def _opened(settings: LearnSettings) -> tuple[Source, Streams]:
    study = settings.study
    check_device(study)
    source = read_source(study)
    material = seed_material(source, study, settings.seed)
    check_batch(study, material)
    return source, open_streams(material, study, settings.seed, device_of(study))


def _begin(kept: Path, settings: LearnSettings, source: Source) -> None:
    plain, data = to_plain(settings), fingerprint(source)
    if not exists(kept):
        create_run(kept, plain, {"data": data})
    elif run_settings(kept) != plain or stored_fact(kept, "data") != data:
        raise UsageError(
            f"{kept} holds a commentary half learnt, with other settings or data. Give the "
            "same command to go on with it, delete the folder, or name another with --out."
        )


def _round(course: Course, number: int, settings: LearnSettings) -> float:
    try:
        return float(course.round(number))
    except UsageError:
        raise
    except UNFIT as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"The teacher {settings.teacher} cannot be learnt with the student "
            f"{settings.student} on {settings.data} by {settings.algorithm}: {reason}"
        ) from error


def _keep(file: Path, course: Course, losses: list[float], seconds: float) -> None:
    buffer = io.BytesIO()
    torch.save({"course": course.state_dict(), "losses": losses, "seconds": seconds}, buffer)
    write_atomically(file, buffer.getvalue())


def _resume(file: Path, course: Course) -> tuple[list[float], float]:
    if not file.exists():
        return [], 0.0
    try:
        device = next(course.teacher.parameters()).device
        state: dict[str, Any] = torch.load(file, weights_only=True, map_location=device)
        course.load_state_dict(state["course"])
    except (RuntimeError, ValueError, LookupError, EOFError, pickle.UnpicklingError) as error:
        raise UsageError(f"{file} is damaged. Delete {file.parent} to learn anew.") from error
    return state["losses"], state["seconds"]


def _came(
    settings: LearnSettings,
    streams: Streams,
    course: Course,
    losses: list[float],
    seconds: float,
) -> Provenance:
    train = streams.train
    return Provenance(
        student=settings.student,
        data=train.images.name,
        classes=train.images.classes,
        mean=tuple(train.mean.tolist()),
        std=tuple(train.std.tolist()),
        metrics=(
            ("held_out_loss_first_round", losses[0]),
            ("held_out_loss_last_round", losses[-1]),
            ("skipped_teacher_steps", course.skipped),
            ("seconds", seconds),
        ),
        command=command(settings),
        runs=settings.rounds if settings.algorithm == "unroll" else 1,
        sides=tuple(train.images.images.shape[2:]),
    )


def command(settings: LearnSettings) -> str:
    """The command that learns the same again.

    Args:
        settings: What was asked.

    Returns:
        ``tutelage commentary learn`` with every flag that is not at its default.
    """
    words, defaults = ["tutelage", "commentary", "learn", settings.data], LearnSettings()
    for name, value in to_plain(settings).items():
        if name != "data" and value != getattr(defaults, name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)
