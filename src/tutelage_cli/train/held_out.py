"""Held-out and test examples: of a source of their own, without copies, of every class."""

import logging
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from tutelage.errors import UsageError, nearest, one_line
from tutelage_cli.data.assemble import about_channels, about_others
from tutelage_cli.data.classes import ClassLookup
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.mapped import with_channels
from tutelage_cli.data.overlap import content_numbers, overlap, tested_on_training
from tutelage_cli.data.splits import most_balanced, require_balanced
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.students import Data, kind

_LOG = logging.getLogger(__name__)


def missing_class_notes(
    train: Data, given: Tensor | None, trusted: Data | None
) -> tuple[str, ...]:
    """Log which classes the training labels or the held-out labels lack, and return that."""
    labels, classes = train.labels, train.classes
    notes: tuple[str, ...] = ()
    if given is not None:
        notes += about_others(labels, given, classes, examples="label that is trained on")
    if trusted is not None:
        notes += about_others(labels, trusted.labels, classes, examples="held-out example")
    for note in notes:
        _LOG.warning(note)
    return notes


def require_training_examples(train: Data, size: int, *, given: bool) -> None:
    """Refuse a held-out size that leaves a class without training examples."""
    if size >= len(train):
        raise UsageError(
            f"--held-out {size} leaves nothing to train on: {train.name} has {len(train)} "
            f"training {kind(train)}; give fewer, {most_balanced(train.labels, keep=1)} at "
            "most, or --held-out-from."
        )
    require_balanced(
        train.labels,
        size,
        train.classes,
        flag=f"--held-out {size}" if given else f"--held-out {size} (the default here)",
    )


def require_classes(train: Data, left: Tensor, settings: TrainSettings) -> None:
    """Refuse an imbalance or a limit that leaves a class without examples."""
    counts = torch.bincount(left, minlength=len(train.classes))
    if settings.imbalance is not None and not bool(counts.all()):
        lacking = [train.classes[c] for c in (counts == 0).nonzero().flatten().tolist()]
        raise UsageError(
            f"--imbalance {settings.imbalance:g} needs training {kind(train)} of every class, "
            f"but there are none of {', '.join(lacking)}: leave it away, or add some."
        )
    present = int((counts > 0).sum())
    if settings.limit is not None and settings.limit < present:
        raise UsageError(
            f"--limit {settings.limit} leaves no example of some of the {present} classes of "
            f"{train.name}; allowed: {present} and above."
        )


class Contents(NamedTuple):
    """Numbers that are equal for examples of equal content."""

    train: Tensor
    """[N]"""
    trusted: Tensor | None = None
    """of held-out examples from a source of their own"""


def contents_of(
    train: Data, test: Data, trusted: Data | None, where: str | None
) -> tuple[Contents, tuple[str, ...]]:
    """Number all parts of the data by content, and log the copies that are found."""
    held_out = () if trusted is None else (trusted,)
    own, tested, *others = content_numbers(train, test, *held_out)
    notes = [tested_on_training(train, test, own, tested)]
    for part, numbers in zip(held_out, others, strict=True):
        notes.append(_held_out_copies_note(train, part, own, numbers, str(where)))
        notes.append(_test_copies_note(part, numbers, tested, str(where)))
    if trusted is None:
        notes.append(_duplicates_note(train, own))
    messages = tuple(filter(None, notes))
    for note in messages:
        _LOG.warning(note)
    return Contents(own, *others), messages


def without_copies(
    rows: Tensor, train: Data, contents: Contents, held_out_contents: Tensor, where: str | None
) -> Tensor:
    """Training rows without copies of held-out examples."""
    copies = torch.isin(contents.train[rows], held_out_contents)
    if not copies.any():
        return rows
    labels = train.labels[rows]
    counts = torch.bincount(labels[~copies], minlength=len(train.classes))
    lost = labels.unique()[counts[labels.unique()] == 0]
    if len(lost) and where is not None:
        name = one_line(train.classes[int(lost[0])])
        raise UsageError(
            f"--held-out-from {where} holds a copy of every training example of class "
            f"'{name}', and held-out and test examples are not trained on: take some "
            "out of it."
        )
    return rows[~copies | torch.isin(labels, lost)]


def has_copies(contents: Contents) -> bool:
    """Whether some training example may be a copy of a held-out one."""
    if contents.trusted is not None:
        return bool(torch.isin(contents.train, contents.trusted).any())
    return len(contents.train.unique()) < len(contents.train)


def _held_out_copies_note(
    train: Data, part: Data, own: Tensor, numbers: Tensor, where: str
) -> str:
    found = overlap(train, own, numbers)
    if not found.copies:
        return ""
    return (
        f"{found.copies} of the {len(own)} training {kind(train)} of {train.name} are copies "
        f"of {kind(part)} of {where} ({found.listed}), which are held out: they are not "
        "trained on."
    )


def _test_copies_note(part: Data, numbers: Tensor, tested: Tensor, where: str) -> str:
    found = overlap(part, numbers, tested)
    if not found.copies:
        return ""
    return (
        f"{found.copies} of the {len(numbers)} {kind(part)} of {where}, which are held out, "
        f"are copies of test {kind(part)} ({found.listed}): test accuracy is then not on "
        "unseen examples. Take them out of one of the two."
    )


def _duplicates_note(train: Data, own: Tensor) -> str:
    counts = own.bincount()
    duplicates = counts[own] > 1
    if not duplicates.any():
        return ""
    name = train.names()[int(duplicates.nonzero()[0])]
    return (
        f"{int(duplicates.sum())} training {kind(train)} of {train.name} have copies among "
        f"one another (the first is {name}): where one is held out, its copies are not "
        "trained on."
    )


def align_classes(flag: str, source: str, parts: Splits[Data], train: Data) -> Data:
    """All examples of a source, their labels renumbered as the training set's classes."""
    examples = _concatenated(parts)
    lookup = ClassLookup(train.classes)
    places = torch.full((len(examples.classes),), -1)
    for number in examples.labels.unique().tolist():
        name = examples.classes[number]
        code = lookup.code(name)
        if code is None:
            raise UsageError(
                f"{flag} {source} has a class '{one_line(name)}', which {train.name} lacks. "
                f"{nearest(name, train.classes)}"
            )
        places[number] = code
    fitted = _fit_shape(examples, train, f"{flag} {source}")
    return replace(fitted, labels=places[examples.labels], classes=train.classes)


def _fit_shape(examples: Data, train: Data, where: str) -> Data:
    if isinstance(examples, ImageSet) and isinstance(train, ImageSet):
        ours, theirs = (tuple(part.images.shape[1:]) for part in (examples, train))
        if ours[1:] == theirs[1:] and ours[0] > theirs[0]:
            raise UsageError(
                f"{where} has images of {ours[0]} channels, {train.name} of {theirs[0]}: "
                "convert one of the two, so that both are grey or both have colours."
            )
        if ours[1:] != theirs[1:] or ours[0] > theirs[0]:
            raise UsageError(
                f"{where} has images of shape {ours}, {train.name} of {theirs}: give images of "
                "one shape, or --image-size N."
            )
        if ours[0] < theirs[0]:
            _LOG.warning(about_channels(where, ours[0], theirs[0]))
        return replace(examples, images=with_channels(examples.images, theirs[0]))
    if isinstance(examples, FeatureSet) and isinstance(train, FeatureSet):
        ours, theirs = (part.features.shape[1] for part in (examples, train))
        if ours != theirs:
            raise UsageError(
                f"{where} has vectors of {ours} numbers, {train.name} of {theirs}: give as "
                "many."
            )
    return examples


def _concatenated(parts: Splits[Data]) -> Data:
    # the examples of both parts, with unique ids and names
    if not len(parts.test):
        return parts.train
    ids, names = _ids_and_names(parts.train, parts.test)
    return parts.train.concatenated(parts.test, ids, names)


def _ids_and_names(train: Data, test: Data) -> tuple[Tensor, tuple[str, ...]]:
    # ids [N] of the examples of both parts and their names by id
    ids = torch.cat([train.ids, test.ids])
    if split_off(train, test):
        return ids, train.sources
    parts = {"train": train, "test": test}
    names = [f"{which}/{name}" for which, part in parts.items() for name in part.names()]
    return torch.arange(len(names)), tuple(names)


def split_off(train: Data, test: Data) -> bool:
    """Whether the test examples are rows of the training source that were split off."""
    ids = torch.cat([train.ids, test.ids])
    return len(test) > 0 and train.sources == test.sources and len(ids.unique()) == len(ids)
