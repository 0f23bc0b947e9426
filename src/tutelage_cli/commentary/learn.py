"""Learns a commentary: checks, checkpoints after each episode, and the stored result."""

import math
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from tutelage.commentaries import Provenance, save_commentary
from tutelage.commentaries.folders import require_free
from tutelage.errors import UsageError, in_one_line
from tutelage.models.heads import MLP
from tutelage.storage.checkpoint import (
    check_checksum,
    load_checkpoint,
    name_damaged_file,
    save_checkpoint,
    with_checksum,
)
from tutelage.storage.json_files import write_error
from tutelage_cli.commentary.algorithms import ALGORITHMS, LearningAlgorithm
from tutelage_cli.commentary.settings import LEARNED, ON_IMAGES, LearnSettings
from tutelage_cli.config.flags import flags_of
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
from tutelage_cli.train.file_digests import file_digests, refuse_changed_files
from tutelage_cli.train.freeze import Notify
from tutelage_cli.train.material import (
    Source,
    Streams,
    open_streams,
    read_source,
    seed_material,
)
from tutelage_cli.train.read_data import KIND_NAMES, Kind, check_kind, kind_of
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.students import BAG, student_name

STATE = "state.pt"
"""the checkpoint after each episode"""
MISFIT_ERRORS = (RuntimeError, ValueError, AssertionError)
"""what a layer or a teacher raises that does not fit the examples"""
STUDENTS: dict[Kind, str] = {"images": "cnn", "texts": BAG, "features": MLP}
"""the students where the settings name none"""
OnEpisode = Callable[[int, float], None]
"""is called with the number of a finished episode, from 1, and its held-out loss"""


def learn(
    settings: LearnSettings,
    out: Path,
    on_episode: OnEpisode,
    notify: Notify,
    *,
    overwrite: bool = False,
) -> Path:
    """Learn a commentary, from the checkpoint of an earlier attempt if there is one."""
    require_free(out, overwrite=overwrite)
    settings = _with_student(settings)
    source, streams = _open(settings, notify)
    algorithm: LearningAlgorithm = ALGORITHMS[settings.algorithm](settings, streams)
    work_folder = out.with_name(f"{out.name}.learning")
    _begin(work_folder, settings, source)
    try:
        losses, seconds = _episodes(algorithm, settings, work_folder, on_episode)
        came = _provenance(settings, streams, algorithm, losses, seconds)
        save_commentary(algorithm.teacher, out, came, overwrite=overwrite)
        shutil.rmtree(work_folder)
    except OSError as error:
        then = "then give the same command again: it goes on after the last whole episode"
        raise UsageError(write_error(error, error.filename or work_folder, then)) from error
    return out


def _episodes(
    algorithm: LearningAlgorithm,
    settings: LearnSettings,
    work_folder: Path,
    on_episode: OnEpisode,
) -> tuple[list[float], float]:
    sweep(work_folder)
    file, losses, seconds = work_folder / STATE, [], 0.0
    if file.exists():
        with name_damaged_file(file, f"Delete {work_folder} to learn anew."):
            losses, seconds = _resume(file, algorithm)
    for number in range(len(losses), settings.episodes):
        started = time.perf_counter()
        # errors of fit occur in the first episode
        with nullcontext() if number else _explain_misfit(settings):
            losses.append(float(algorithm.episode(number)))
        seconds += time.perf_counter() - started
        if losses[-1] != losses[-1]:
            raise UsageError(
                f"Learning diverged in episode {number + 1}: the held-out loss is "
                f"{losses[-1]}. Lower --lr (now {settings.lr:g}) or --teacher-lr."
            )
        state = with_checksum("algorithm", algorithm.state_dict())
        save_checkpoint(file, state | {"losses": losses, "seconds": seconds})
        on_episode(number + 1, losses[-1])
    return losses, seconds


def _with_student(settings: LearnSettings) -> LearnSettings:
    """The same settings with a student; a teacher that the data do not fit is refused."""
    kind, study = kind_of(settings.study), _study_of(settings)
    check_device(study)
    require_noise(study.noise_or_default, study.data)
    check_kind(study, kind)
    if kind != "images" and settings.teacher in ON_IMAGES:
        others = ", ".join(name for name in LEARNED if name not in ON_IMAGES)
        raise UsageError(
            f"{settings.teacher} needs images, but {settings.data} holds {KIND_NAMES[kind]}. "
            f"Allowed: --teacher {others}."
        )
    return replace(settings, student=settings.student or STUDENTS[kind])


def _study_of(settings: LearnSettings) -> TrainSettings:
    study = settings.study
    if kind_of(study) == "images":
        return study
    return replace(study, augment=TrainSettings.augment)  # no setting of theirs


def _open(settings: LearnSettings, notify: Notify) -> tuple[Source, Streams]:
    study = _study_of(settings)
    source = read_source(study, notify)
    material = seed_material(source, study, settings.seed)
    check_batch(study, material)
    return source, open_streams(material, study, settings.seed, device_of(study))


def _begin(work_folder: Path, settings: LearnSettings, source: Source) -> None:
    plain, data = to_plain(settings), fingerprint(source)
    files = file_digests(settings.study)
    if not exists(work_folder / SETTINGS):
        create_run(work_folder, plain, {"data": data, **files})
        return
    stored = run_facts(work_folder)
    if run_settings(work_folder) != plain or stored.get("data") != data:
        raise UsageError(
            f"{work_folder} holds a commentary half learned, with other settings or data. Give "
            "the same command to go on with it, delete the folder, or name another with --out."
        )
    anew = f"delete {work_folder}, or name another folder with --out"
    refuse_changed_files(work_folder, stored, files, anew)


@contextmanager
def _explain_misfit(settings: LearnSettings) -> Iterator[None]:
    try:
        yield
    except UsageError:
        raise
    except MISFIT_ERRORS as error:
        raise UsageError(
            f"The teacher {settings.teacher} cannot be learned with the student "
            f"{settings.student} on {settings.data} by {settings.algorithm}: "
            f"{in_one_line(error)}"
        ) from error


def _resume(file: Path, algorithm: LearningAlgorithm) -> tuple[list[float], float]:
    state = load_checkpoint(file, next(algorithm.teacher.parameters()).device)
    algorithm.load_state_dict(check_checksum("algorithm", state))
    losses = [float(loss) for loss in state["losses"]]
    if not losses or not all(map(math.isfinite, losses)):
        raise ValueError(f"its losses are {losses}")
    return losses, float(state["seconds"])


def _provenance(
    settings: LearnSettings,
    streams: Streams,
    algorithm: LearningAlgorithm,
    losses: list[float],
    seconds: float,
) -> Provenance:
    train = streams.train.examples
    return Provenance(
        student=student_name(settings.study, train),
        data=train.name,
        classes=train.classes,
        metrics=(
            ("held_out_loss_first_episode", losses[0]),
            ("held_out_loss_last_episode", losses[-1]),
            ("skipped_teacher_steps", algorithm.skipped),
            ("seconds", seconds),
        ),
        command=command_line(settings),
        runs=settings.episodes if settings.algorithm == "unroll" else 1,
        signal=algorithm.signal,
        seeds=(settings.seed,),
        **streams.image_facts,
    )


def command_line(settings: LearnSettings) -> str:
    """The command that learns the same again."""
    return shlex.join(["tutelage", "commentary", "learn", settings.data, *flags_of(settings)])
