"""Checks of teachers and students that need the kind of the data only, before data are read."""

import math
from dataclasses import replace
from pathlib import Path

import torch

from tutelage.errors import UsageError
from tutelage.models.catalogue import STUDENTS
from tutelage.signals import Reversible, Signal
from tutelage.signals.drift import WORST_DRIFT
from tutelage_cli.config.flags import flag
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.sources import is_named
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.runner.run_folder import exists
from tutelage_cli.train.arms import TAUGHT, build_tutor, signal_and_period
from tutelage_cli.train.read_data import Kind, check_other_source
from tutelage_cli.train.settings import EMBEDDED, TrainSettings
from tutelage_cli.train.students import BAG, CODE, Data

CLASSES, WIDTH, PIXELS, WORDS = 10, 16, 64, 8
"""of the examples that stand in for the data; images have the size that is set, or this one,
which is no smaller than any student needs"""


def dry_run(settings: TrainSettings, kind: Kind) -> None:
    """Refuse settings by which no teacher could learn, or no student be built.

    Files of labels and weights and other sources have to be there. Periods and momentum are
    checked in the words of the flags. Then the tutor of each arm is built for examples that
    stand in for the data, so that whatever it refuses is refused here.
    """
    _check_files(settings, kind)
    taught = [arm for arm in settings.taught if arm in TAUGHT]
    features = kind == "features" or settings.freeze
    for arm in taught:
        signal, every = signal_and_period(arm, settings, features=features)
        if signal is not None:
            _check_period(arm, settings, signal, every)
    if (data := _stand_in(settings, kind)) is None:
        return
    settings = replace(settings, device="cpu")
    if kind == "texts" and settings.student not in (None, BAG):
        settings = replace(settings, student=BAG, tap=None)
    for arm in ("untaught", *taught):
        build_tutor(arm, 0, data, settings, steps=1)


def _check_files(settings: TrainSettings, kind: Kind) -> None:
    for name in ("labels_from", "weights_from"):
        file = getattr(settings, name)
        if file is not None and not exists(file):
            raise UsageError(
                f"{flag(name)}: there is no table {file}; give a .parquet or .csv file."
            )
    for source in (settings.held_out_from, settings.test_from):
        if source is not None:
            check_other_source(source, settings, kind)


def _check_period(arm: str, settings: TrainSettings, signal: Signal, every: int) -> None:
    if signal.steps > every:
        what = "is by default" if settings.unroll_steps is None else "is"
        raise UsageError(
            f"--unroll-steps {what} {signal.steps}, but {arm} learns after every {every} "
            f"student step{'s' * (every > 1)}: give --teacher-every {signal.steps} or more, or "
            f"--unroll-steps {every}."
        )
    if signal.evaluate_on == "plain" and every < 2:
        raise UsageError(
            f"--teacher-every is {every}, but {arm} needs steps without it between those with "
            "it: give --teacher-every 2 or more."
        )
    if not isinstance(signal, Reversible) or _is_own(settings.student):
        return
    amplified = math.prod([1 / settings.momentum] * signal.steps)  # infinite, not an error
    growth = amplified * torch.finfo(torch.float32).eps
    if growth > WORST_DRIFT:
        raise UsageError(
            f"--momentum is {settings.momentum:g}, too small for --unroll-steps "
            f"{signal.steps}: {arm} undoes so many student steps, which would amplify rounding "
            f"to about {growth:.0e}. Give more --momentum, or fewer --unroll-steps."
        )


def _is_own(student: str | None) -> bool:
    # code or a folder: may be in float64
    return student is not None and (CODE in student or Path(student).expanduser().is_dir())


def _stand_in(settings: TrainSettings, kind: Kind) -> Data | None:
    # None: what the student is, or whether its weights fit, depends on the images
    labels = torch.arange(CLASSES)
    names, source = tuple(map(str, range(CLASSES))), Path(settings.data).name
    if kind == "features" or settings.freeze:
        return FeatureSet(torch.zeros(CLASSES, WIDTH), labels, labels, names, source)
    if kind == "texts":
        tokens = torch.ones(CLASSES, 3, 2, dtype=torch.int32)
        return TextSet((names,), tokens, labels, labels, names, source, WORDS)
    if settings.student_weights is not None:
        return None
    embedded = settings.data == EMBEDDED
    if settings.student not in STUDENTS and not (embedded and settings.student is None):
        return None
    side = PIXELS if is_named(settings.data) else settings.image_size or PIXELS
    images = torch.full((CLASSES, 1 if embedded else 3, side, side), 128, dtype=torch.uint8)
    return ImageSet(images, labels, labels, names, source)
