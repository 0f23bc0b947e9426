"""Learning a commentary: what is checked, what is kept after each round, what is stored."""

import math
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tutelage.commentaries import Provenance, save_commentary
from tutelage.errors import UsageError
from tutelage.storage.checkpoint import (
    check_checksum,
    load_checkpoint,
    name_damaged_file,
    save_checkpoint,
    with_checksum,
)
from tutelage.storage.json_files import write_error
from tutelage_cli.commentary.course import COURSES, Course
from tutelage_cli.commentary.settings import LearnSettings
from tutelage_cli.config.settings_files import to_plain
from tutelage_cli.data.noise import require_noise
from tutelage_cli.runner.run_folder import (
    SETTINGS,
    create_run,
    exists,
    run_facts,
    run_settings,
    sweep,
)
from tutelage_cli.train.arms import device_of
from tutelage_cli.train.check import check_batch, check_device, fingerprint
from tutelage_cli.train.material import (
    Source,
    Streams,
    open_streams,
    read_source,
    seed_material,
)
from tutelage_cli.train.parts import CALLED, kind_of
from tutelage_cli.train.students import require_image_student

STATE = "state.pt"
"""what is kept after each round"""
UNFIT = (RuntimeError, ValueError, AssertionError)
"""what a layer or a teacher raises that does not fit the images"""
Tell = Callable[[int, float], None]
"""is told the number of a finished round, from 1, and its held-out loss"""


def learn(settings: LearnSettings, out: Path, tell: Tell) -> Path:
    """Learn a commentary, going on where an earlier attempt stopped."""
    source, streams = _opened(settings)
    course: Course = COURSES[settings.algorithm](settings, streams)
    kept = out.with_name(f"{out.name}.learning")
    _begin(kept, settings, source)
    try:
        losses, seconds = _rounds(course, settings, kept, tell)
        save_commentary(course.teacher, out, _came(settings, streams, course, losses, seconds))
        shutil.rmtree(kept)
    except OSError as error:
        then = "then give the same command again: it goes on after the last whole round"
        raise UsageError(write_error(error, error.filename or kept, then)) from error
    return out


def _rounds(
    course: Course, settings: LearnSettings, kept: Path, tell: Tell
) -> tuple[list[float], float]:
    sweep(kept)
    file, losses, seconds = kept / STATE, [], 0.0
    if file.exists():
        with name_damaged_file(file, f"Delete {kept} to learn anew."):
            losses, seconds = _resume(file, course)
    for number in range(len(losses), settings.rounds):
        started = time.perf_counter()
        # what does not fit shows in the first round
        with nullcontext() if number else _telling_misfit(settings):
            losses.append(float(course.round(number)))
        seconds += time.perf_counter() - started
        if losses[-1] != losses[-1]:
            raise UsageError(
                f"Learning diverged in round {number + 1}: the held-out loss is {losses[-1]}. "
                f"Lower --lr (now {settings.lr:g}) or --teacher-lr."
            )
        state = with_checksum("course", course.state_dict())
        save_checkpoint(file, state | {"losses": losses, "seconds": seconds})
        tell(number + 1, losses[-1])
    return losses, seconds


def _opened(settings: LearnSettings) -> tuple[Source, Streams]:
    study = settings.study
    check_device(study)
    require_noise(study.noise_or_default, study.data)
    require_image_student(study)
    if (kind := kind_of(study)) != "images":
        raise UsageError(
            f"{settings.data} holds {CALLED[kind]}; commentary learn takes images. tutelage "
            f"train learns a commentary of {CALLED[kind]} along one run."
        )
    source = read_source(study)
    material = seed_material(source, study, settings.seed)
    check_batch(study, material)
    return source, open_streams(material, study, settings.seed, device_of(study))


def _begin(kept: Path, settings: LearnSettings, source: Source) -> None:
    plain, data = to_plain(settings), fingerprint(source)
    if not exists(kept / SETTINGS):
        create_run(kept, plain, {"data": data})
    elif run_settings(kept) != plain or run_facts(kept).get("data") != data:
        raise UsageError(
            f"{kept} holds a commentary half learnt, with other settings or data. Give the "
            "same command to go on with it, delete the folder, or name another with --out."
        )


@contextmanager
def _telling_misfit(settings: LearnSettings) -> Iterator[None]:
    try:
        yield
    except UsageError:
        raise
    except UNFIT as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"The teacher {settings.teacher} cannot be learnt with the student "
            f"{settings.student} on {settings.data} by {settings.algorithm}: {reason}"
        ) from error


def _resume(file: Path, course: Course) -> tuple[list[float], float]:
    state = load_checkpoint(file, next(course.teacher.parameters()).device)
    course.load_state_dict(check_checksum("course", state))
    losses = [float(loss) for loss in state["losses"]]
    if not losses or not all(map(math.isfinite, losses)):
        raise ValueError(f"its losses are {losses}")
    return losses, float(state["seconds"])


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
    """The command that learns the same again."""
    words = ["tutelage", "commentary", "learn", settings.data]
    defaults = to_plain(LearnSettings())
    for name, value in to_plain(settings).items():
        if name != "data" and value != defaults[name]:
            values = value if isinstance(value, list) else [value]
            words += [f"--{name.replace('_', '-')}", *map(str, values)]
    return shlex.join(words)
