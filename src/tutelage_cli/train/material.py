"""Training, held-out and test examples of one seed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from tutelage.augment import crop_and_flip
from tutelage.errors import UsageError
from tutelage_cli.data.batches import Batches, CollateImages, statistics
from tutelage_cli.data.features.feature_set import (
    CollateFeatures,
    FeatureSet,
    feature_statistics,
)
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.labels import human_labels, read_labels
from tutelage_cli.data.matching import Known
from tutelage_cli.data.noise import HUMAN, Noise, corrupt, noise_matrix, require_noise
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import is_named
from tutelage_cli.data.splits import balanced_rows, limit_rows, long_tailed_rows
from tutelage_cli.data.text.text_set import TextSet, collate_texts
from tutelage_cli.train.arms import device_of
from tutelage_cli.train.freeze import Notify, frozen_features
from tutelage_cli.train.held_out import (
    Contents,
    align_classes,
    contents_of,
    missing_class_notes,
    require_classes,
    require_training_examples,
    split_off,
    without_copies,
)
from tutelage_cli.train.read_data import check_kind, kind_of, read_data, read_other_source
from tutelage_cli.train.settings import EMBEDDED, TrainSettings, needs_label_file
from tutelage_cli.train.students import Data, with_tokens

HELD_OUT = 500
"""default number of held-out examples; at most a fifth of the training set"""
FEW = 20
"""the same of the embedded digits"""
CROPPED = 4
"""pixels of padding before a random crop"""
CURVE_IMAGES = 2000
"""test images, class balanced, of the learning curve; the result uses all"""


@dataclass(frozen=True)
class Source:
    """The data before a seed has been chosen."""

    splits: Splits[Data]
    """with the labels that are held to be right"""
    given: Tensor | None
    """[N] labels of the training split to train on instead, or None"""
    trusted: Data | None = None
    """held-out examples; None: some of the training split"""
    contents: Contents | None = None
    """by which copies are found; None: they are not searched"""


Examples = TypeVar("Examples", bound=Data)


@dataclass(frozen=True)
class Material(Generic[Examples]):
    """The data of one seed."""

    train: Examples
    """with the labels that the student is trained on"""
    truth: Tensor | None
    """[N] right labels of the training set; None where no other labels are known"""
    held_out: Examples
    test: Examples

    @property
    def wrong(self) -> Tensor | None:
        """[N] where the training label is not the right one; None where that is not known."""
        return None if self.truth is None else self.truth != self.train.labels


def read_source(settings: TrainSettings, notify: Notify = lambda _: None) -> Source:
    """Read the data that the settings name, and check that the two fit."""
    require_noise(settings.noise_or_default, settings.data)
    reading = Reading(
        settings.broken_images,
        settings.empty_classes,
        settings.missing_labels,
        settings.ignore_labels,
        settings.image_size,
    )
    check_kind(settings, data_kind := kind_of(settings))
    notify("Reading the data ...")
    splits = read_data(settings, data_kind, reading)
    given = given_labels(splits.train, settings)
    train, test, notes, trusted = splits.train, splits.test, splits.notes, None
    if settings.test_from is not None:
        other = read_other_source(settings.test_from, settings, data_kind, reading)
        notes += _unused_test_note(settings.test_from, test)
        test = align_classes("--test-from", settings.test_from, other, train)
    if (where := settings.held_out_from) is not None:
        other = read_other_source(where, settings, data_kind, reading)
        trusted = align_classes("--held-out-from", where, other, train)
    train, test, trusted = _with_tokens(settings, train, test, trusted)
    contents, more = contents_of(train, test, trusted, where)
    notes += (*missing_class_notes(train, given, trusted), *more)
    source = Source(Splits(train, test, notes), given, trusted, contents)
    if settings.freeze and not isinstance(train, FeatureSet):
        source = _frozen(source, settings, notify)
    held_out = seed_material(source, settings, 0).held_out
    if trusted is None:
        source = with_notes(source, *missing_class_notes(train, None, held_out))
    return source


def with_notes(source: Source, *notes: str) -> Source:
    """The same data, with more that is worth knowing of it."""
    splits = replace(source.splits, notes=(*source.splits.notes, *notes))
    return replace(source, splits=splits)


def _unused_test_note(source: str, test: Data) -> tuple[str, ...]:
    if not len(test):
        return ()
    return (
        f"The test part of {test.name} ({len(test)} examples) is not used: students are tested "
        f"on {source}.",
    )


def _with_tokens(
    settings: TrainSettings, train: Data, test: Data, trusted: Data | None
) -> tuple[Data, Data, Data | None]:
    parts = [part for part in (train, test, trusted) if isinstance(part, TextSet)]
    if not parts:
        return train, test, trusted
    tokenised = with_tokens(settings, parts)
    return tokenised[0], tokenised[1], None if trusted is None else tokenised[2]


def _frozen(source: Source, settings: TrainSettings, notify: Notify) -> Source:
    # with features in place of examples, at least of those that some seed needs
    train, test, notes = source.splits.train, source.splits.test, source.splits.notes
    parts = [p for p in (train, test, source.trusted) if isinstance(p, ImageSet | TextSet)]
    needed = torch.zeros(len(train), dtype=torch.bool)
    for seed in range(settings.seeds):
        needed[torch.cat(_rows_of(source, settings, seed))] = True
    rows = needed.nonzero()[:, 0]
    features = frozen_features(settings, parts, device_of(settings), notify, rows)
    trusted = None if source.trusted is None else features[2]
    return replace(source, splits=Splits(features[0], features[1], notes), trusted=trusted)


def given_labels(train: Data, settings: TrainSettings) -> Tensor | None:
    """Labels to train on in place of the data's own: from a file, or from people."""
    noise = Noise.parse(settings.noise_or_default)
    if settings.labels_from is None or needs_label_file(settings):
        if noise.kind != HUMAN:
            return None
        assert isinstance(train, ImageSet)  # ``check_kind`` sees to that
        return human_labels(train, noise.annotator)
    assert settings.label_column is not None  # the settings see to that
    file, column = settings.labels_from, settings.label_column
    return read_labels(file, column, len(train), train.classes, examples=Known.of(train))


def about_given_test_labels(source: Source, settings: TrainSettings) -> str:
    """The warning that test labels are given ones, which may be wrong; empty where not."""
    known = settings.labels_from is not None and not needs_label_file(settings)
    known |= settings.noise_or_default != "none" or is_named(settings.data)
    train, test = source.splits.train, source.splits.test
    if known or settings.test_from is not None or not split_off(train, test):
        return ""
    return (
        f"The {len(test)} test examples are a part of {train.name} with its own labels: where "
        "these are wrong, so are the test accuracies. Name examples with checked labels by "
        "--test-from."
    )


def seed_material(source: Source, settings: TrainSettings, seed: int) -> Material:
    """The data of one seed: held-out images, imbalance, limit, wrong labels."""
    train = source.splits.train
    chosen, rest = _rows_of(source, settings, seed)
    held_out = train.rows(chosen) if source.trusted is None else source.trusted
    right = train.rows(rest)
    labels = right.labels if source.given is None else source.given[rest]
    noise = Noise.parse(settings.noise_or_default)
    drawn = noise.kind not in ("none", HUMAN)
    if drawn:
        labels = corrupt(labels, noise_matrix(noise, train.classes), seed=seed)
    known = source.given is not None or drawn
    return Material(
        train=right.with_labels(labels),
        truth=right.labels if known else None,
        held_out=held_out,
        test=source.splits.test,
    )


def _rows_of(source: Source, settings: TrainSettings, seed: int) -> tuple[Tensor, Tensor]:
    # the rows that are held out, if no other source is, and those that are trained on
    train = source.splits.train
    classes = len(train.classes)
    chosen, rest = torch.arange(0), torch.arange(len(train))
    if source.trusted is None:
        most = FEW if settings.data == EMBEDDED else HELD_OUT
        size = settings.held_out or max(1, min(most, len(train) // 5))
        require_training_examples(train, size, given=settings.held_out is not None)
        chosen, rest = balanced_rows(train.labels, size, classes, seed=seed, keep=1)
    if source.contents is not None:
        numbers, trusted = source.contents
        held_out_contents = numbers[chosen] if trusted is None else trusted
        rest = without_copies(
            rest, train, source.contents, held_out_contents, settings.held_out_from
        )
    require_classes(train, train.labels[rest], settings)
    if settings.imbalance is not None:
        factor = settings.imbalance
        rest = rest[long_tailed_rows(train.labels[rest], factor, classes, seed=seed)]
    if settings.limit is not None and settings.limit < len(rest):
        rest = rest[limit_rows(train.labels[rest], settings.limit, classes, seed=seed)]
    return chosen, rest


@dataclass(frozen=True)
class Streams(Generic[Examples]):
    """The batches of one seed."""

    train: Batches[Examples]
    held_out: Batches[Examples]
    test: Batches[Examples]
    curve: Batches[Examples]
    """a part of the test set, for the learning curve"""

    @property
    def image_facts(self) -> dict[str, Any]:
        """Normalisation and size of images by their names in ``Provenance``; else none."""
        images, collate = self.train.examples, self.train.collate
        if not isinstance(images, ImageSet):
            return {}
        assert isinstance(collate, CollateImages)
        mean, std = (tuple(values.tolist()) for values in (collate.mean, collate.std))
        return {"mean": mean, "std": std, "sides": tuple(images.images.shape[2:])}


def open_streams(
    material: Material, settings: TrainSettings, seed: int, device: torch.device
) -> Streams:
    """Batches of the training, held-out and test examples, normalised alike."""
    test, rows = material.test, torch.arange(len(material.test))
    if len(test) > CURVE_IMAGES:
        rows = limit_rows(test.labels, CURVE_IMAGES, len(test.classes), seed=0)
    parts = (material.train, material.held_out, test, test.rows(rows))
    collate = _collate(settings, material.train)
    return Streams(
        *(Batches(part, settings.batch_size, seed, collate, device) for part in parts)
    )


def _collate(settings: TrainSettings, train: Data) -> Callable[..., Tensor]:
    if isinstance(train, TextSet):
        return collate_texts
    if isinstance(train, FeatureSet):
        return CollateFeatures(*feature_statistics(train))
    return CollateImages(*statistics(train), _augmentation(settings, train))


def _augmentation(settings: TrainSettings, images: ImageSet):  # noqa: ANN202 - as CollateImages takes it
    _, channels, *sides = images.images.shape
    kind = settings.augment_or_default(channels)
    if kind == "none":
        return None
    if min(sides) <= CROPPED:
        raise UsageError(
            f"images of {sides[0]}x{sides[1]} pixels are too small for --augment {kind}, which "
            f"moves them by up to {CROPPED}: give --augment none."
        )

    def augment(images: Tensor, seed: int) -> Tensor:
        return crop_and_flip(images, seed=seed, flip=kind == "crop-flip")

    return augment
