"""Held-out and test examples from a separate source with trusted labels."""

import logging
from dataclasses import replace

import torch
from torch import Tensor

from tutelage.errors import UsageError, nearest, one_line
from tutelage_cli.data.assemble import about_channels
from tutelage_cli.data.classes import ClassLookup
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits
from tutelage_cli.train.texts import Data

_LOG = logging.getLogger(__name__)


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
        ours, theirs = (tuple(of.images.shape[1:]) for of in (examples, train))
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
        return replace(
            examples, images=examples.images.expand(-1, theirs[0], -1, -1).contiguous()
        )
    if isinstance(examples, FeatureSet) and isinstance(train, FeatureSet):
        ours, theirs = (of.features.shape[1] for of in (examples, train))
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
