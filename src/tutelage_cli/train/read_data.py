"""Reads the data of a study and other sources of the same kind."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tutelage.errors import UsageError
from tutelage.models.heads import HEADS, MLP
from tutelage_cli.config.flags import flag
from tutelage_cli.data.features.own_features import (
    holds_features,
    read_features,
    refuse_odd_vectors,
)
from tutelage_cli.data.labelled import Set, Splits
from tutelage_cli.data.noise import HUMAN, Noise
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import is_named, read, require_source
from tutelage_cli.data.text.own_tables import read_own_texts, text_columns
from tutelage_cli.runner.run_folder import exists
from tutelage_cli.train.settings import (
    IMAGE_SETTINGS,
    TEXT_SETTINGS,
    TrainSettings,
    needs_label_file,
)
from tutelage_cli.train.students import Data, require_image_student, require_text_student

_LOG = logging.getLogger(__name__)
Kind = Literal["images", "texts", "features"]
KIND_NAMES: dict[Kind, str] = {
    "images": "images",
    "texts": "texts",
    "features": "feature vectors",
}
UNUSED_SETTINGS: dict[Kind, Sequence[str]] = {
    "images": (*TEXT_SETTINGS, "feature_column"),
    "texts": (*IMAGE_SETTINGS, "feature_column"),
    "features": (*IMAGE_SETTINGS, *TEXT_SETTINGS, "freeze", "student_weights"),
}
"""settings that do not apply to a kind of data"""


def kind_of(settings: TrainSettings) -> Kind:
    """The kind of the data."""
    if is_named(settings.data):
        return "images"
    if holds_features(settings.data, settings.feature_column):
        return "features"
    if text_columns(settings.data, settings.text_column):
        return "texts"
    if settings.image_column is None:
        refuse_odd_vectors(settings.data)
    return "images"


def check_kind(settings: TrainSettings, kind: Kind) -> None:
    """Refuse settings and students that do not apply to a kind of data."""
    for name in UNUSED_SETTINGS[kind]:
        if getattr(settings, name) != getattr(TrainSettings, name):
            about = (
                "pretrained students"
                if name in ("freeze", "student_weights")
                else _kind_name(name)
            )
            raise UsageError(
                f"{flag(name)} is about {about}, but {settings.data} holds {KIND_NAMES[kind]}: "
                "leave it out."
            )
    noise = Noise.parse(settings.noise_or_default)
    if noise.kind == HUMAN and kind != "images":
        raise UsageError(
            f"--noise {HUMAN}:{noise.annotator} gives labels of cifar10, but {settings.data} "
            f"holds {KIND_NAMES[kind]}: leave it out."
        )
    if kind == "images":
        require_image_student(settings)
    elif kind == "texts":
        require_text_student(settings)
    elif (student := settings.student or MLP) not in HEADS:
        raise UsageError(
            f"Unknown student '{student}' of feature vectors. Allowed: {', '.join(HEADS)}."
        )


def _kind_name(name: str) -> str:
    if name == "feature_column":
        return KIND_NAMES["features"]
    return "texts" if name in TEXT_SETTINGS else "images"


def read_data(settings: TrainSettings, kind: Kind, reading: Reading) -> Splits[Data]:
    """The data, texts not yet tokenised."""
    label_file = kind == "features" and needs_label_file(settings)
    label = settings.label_column if label_file else settings.data_label_column
    reading = replace(reading, whole=settings.test_from is not None, label_column=label)
    if kind == "features":
        file = settings.labels_from if label_file else None
        column = settings.feature_column
        return _log_notes(
            read_features(settings.data, column=column, labels_from=file, reading=reading)
        )
    if kind == "texts":
        columns = text_columns(settings.data, settings.text_column)
        return _log_notes(read_own_texts(settings.data, columns, reading))
    return read(settings.data, replace(reading, image_column=settings.image_column))


def _log_notes(parts: Splits[Set]) -> Splits[Set]:
    # the reader of images logs its own
    for note in parts.notes:
        _LOG.warning("%s", note)
    return parts


def check_other_source(source: str, settings: TrainSettings, kind: Kind) -> None:
    """Refuse another source that is not of the kind of the data, without reading its rows."""
    if kind == "images":
        require_source(source)
    elif not source or not exists(Path(source).expanduser()):
        raise UsageError(
            f"there is no file {source} of {KIND_NAMES[kind]}, as {settings.data} holds; give "
            f"a {'.npz' if kind == 'features' else '.csv'} or Parquet file."
        )
    elif kind == "features" and not holds_features(source, settings.feature_column):
        raise UsageError(
            f"{source} holds no feature vectors, but {settings.data} does: give a .npz or "
            "Parquet file."
        )
    elif kind == "texts":
        columns = text_columns(source, settings.text_column)
        if len(columns) != len(text_columns(settings.data, settings.text_column)):
            raise UsageError(
                f"{source} has {len(columns) or 'no'} columns of texts, unlike "
                f"{settings.data}: give a .csv or Parquet file with the same columns."
            )


def read_other_source(
    source: str, settings: TrainSettings, kind: Kind, reading: Reading
) -> Splits[Data]:
    """Read another source of the same kind, with the data's names of columns."""
    check_other_source(source, settings, kind)
    labelled = replace(reading, whole=True, label_column=settings.data_label_column)
    if kind == "features":
        column = settings.feature_column
        return _log_notes(read_features(source, column=column, reading=labelled))
    if kind == "texts":
        columns = text_columns(source, settings.text_column)
        return _log_notes(read_own_texts(source, columns, labelled))
    return read(source, replace(reading, whole=True))
