"""Held-out images from a source of their own, whose labels are trusted."""

from dataclasses import replace

import torch
from torch import Tensor

from tutelage.errors import UsageError, nearest
from tutelage_cli.data.classes import ClassLookup
from tutelage_cli.data.images import ImageSet, Splits
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import read


def read_trusted(source: str, train: ImageSet, reading: Reading) -> ImageSet:
    """All images of a source, under the classes of a training set.

    Args:
        source: What ``tutelage_cli.data.sources.read`` reads; of a source in two parts, both.
        train: The training set.
        reading: What becomes of images and labels that are not as they should be.

    Returns:
        The images, grey ones with three channels where the training set has three.

    Raises:
        UsageError: If a class or the size is not the training set's.
    """
    splits = read(source, reading=reading)
    parts = (splits.train, splits.test)
    images = torch.cat([part.images for part in parts])
    labels = torch.cat([part.labels for part in parts])
    lookup = ClassLookup(train.classes)
    places = torch.full((len(splits.train.classes),), -1)
    for number in labels.unique().tolist():
        name = splits.train.classes[number]
        code = lookup.code(name)
        if code is None:
            raise UsageError(
                f"held_out_from {source} has a class '{name}', which {train.name} lacks. "
                f"{nearest(name, train.classes)}"
            )
        places[number] = code
    if images.shape[2:] != train.images.shape[2:] or images.shape[1] > train.images.shape[1]:
        ours, theirs = (tuple(found.shape[1:]) for found in (images, train.images))
        raise UsageError(
            f"held_out_from {source} has images of shape {ours}, {train.name} of {theirs}: "
            "give images of one shape, or --image-size N."
        )
    ids, sources = _named(splits)
    return replace(
        splits.train,
        images=images.expand(-1, train.images.shape[1], -1, -1).contiguous(),
        labels=places[labels],
        ids=ids,
        classes=train.classes,
        sources=sources,
    )


def _named(splits: Splits) -> tuple[Tensor, tuple[str, ...]]:
    """Give the images of both parts ids and names that are different.

    Returns:
        int64 [N] and, by id, what the images are called.
    """
    ids = torch.cat([splits.train.ids, splits.test.ids])
    of_one_source = splits.train.sources == splits.test.sources
    if of_one_source and len(ids.unique()) == len(ids):
        return ids, splits.train.sources
    parts = {"train": splits.train, "test": splits.test}
    names = [f"{which}/{name}" for which, part in parts.items() for name in part.names()]
    return torch.arange(len(names)), tuple(names)
