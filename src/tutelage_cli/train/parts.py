"""The data that settings name: images, texts or feature vectors; other sources like them."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from tutelage.errors import UsageError
from tutelage.models.heads import HEADS, MLP
from tutelage_cli.data.features.feature_set import FeatureParts
from tutelage_cli.data.features.own_features import (
    holds_features,
    read_features,
    refuse_odd_vectors,
)
from tutelage_cli.data.images import Splits
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import is_named, read
from tutelage_cli.data.text.own_tables import read_own_texts, text_columns
from tutelage_cli.data.text.text_set import TextParts
from tutelage_cli.train.settings import ON_IMAGES, ON_TEXTS, TrainSettings, labels_itself
from tutelage_cli.train.students import require_image_student
from tutelage_cli.train.texts import require_text_student

_LOG = logging.getLogger(__name__)
AnyParts = TypeVar("AnyParts", TextParts, FeatureParts)
Parts = Splits | TextParts | FeatureParts
Kind = Literal["images", "texts", "features"]
CALLED: dict[Kind, str] = {"images": "images", "texts": "texts", "features": "feature vectors"}
FOREIGN: dict[Kind, Sequence[str]] = {
    "images": (*ON_TEXTS, "feature_column"),
    "texts": (*ON_IMAGES, "feature_column"),
    "features": (*ON_IMAGES, *ON_TEXTS, "freeze", "student_weights"),
}
"""settings that say nothing of data of a kind"""


def kind_of(settings: TrainSettings) -> Kind:
    """What the data are."""
    if is_named(settings.data):
        return "images"
    if holds_features(settings.data, settings.feature_column):
        return "features"
    if text_columns(settings.data, settings.text_column):
        return "texts"
    if settings.image_column is None:
        refuse_odd_vectors(settings.data)
    return "images"


def check_kind(settings: TrainSettings, of: Kind) -> None:
    """Refuse settings and students that are of no use with data of a kind."""
    for name in FOREIGN[of]:
        if getattr(settings, name) != getattr(TrainSettings, name):
            about = (
                "pretrained students" if name in ("freeze", "student_weights") else _about(name)
            )
            raise UsageError(
                f"{name} is about {about}, but {settings.data} holds {CALLED[of]}: leave it "
                "out."
            )
    if of == "images":
        require_image_student(settings)
    elif of == "texts":
        require_text_student(settings)
    elif (student := settings.student or MLP) not in HEADS:
        raise UsageError(
            f"Unknown student '{student}' of feature vectors. Allowed: {', '.join(HEADS)}."
        )


def _about(name: str) -> str:
    if name == "feature_column":
        return CALLED["features"]
    return "texts" if name in ON_TEXTS else "images"


def read_data(settings: TrainSettings, of: Kind, reading: Reading) -> Parts:
    """The data, texts not yet tokenised."""
    reading = replace(reading, whole=settings.test_from is not None)
    label = settings.label_column if settings.labels_from is None else None
    if of == "features":
        itself = labels_itself(settings)
        return _told(
            read_features(
                settings.data,
                column=settings.feature_column,
                label_column=settings.label_column if itself else label,
                labels_from=settings.labels_from if itself else None,
                reading=reading,
            )
        )
    if of == "texts":
        columns = text_columns(settings.data, settings.text_column)
        return _told(
            read_own_texts(settings.data, columns, label_column=label, reading=reading)
        )
    columns = {"image_column": settings.image_column, "label_column": label}
    return read(settings.data, **columns, reading=reading)


def _told(parts: AnyParts) -> AnyParts:
    # as the reader of images tells its notes
    for note in parts.notes:
        _LOG.warning("%s", note)
    return parts


def read_beside(source: str, settings: TrainSettings, of: Kind, reading: Reading) -> Parts:
    """Another source of the same kind, whose columns are called as those of the data are."""
    reading = replace(reading, whole=True)
    label = settings.label_column if settings.labels_from is None else None
    if of == "features":
        if not holds_features(source, settings.feature_column):
            raise UsageError(
                f"{source} holds no feature vectors, but {settings.data} does: give a .npz or "
                "Parquet file."
            )
        column = settings.feature_column
        return _told(read_features(source, column=column, label_column=label, reading=reading))
    if of == "texts":
        columns = text_columns(source, settings.text_column)
        if len(columns) != len(text_columns(settings.data, settings.text_column)):
            raise UsageError(
                f"{source} has {len(columns) or 'no'} columns of texts, unlike "
                f"{settings.data}: give a .csv or Parquet file with the same columns."
            )
        return _told(read_own_texts(source, columns, label_column=label, reading=reading))
    return read(source, reading=reading)
