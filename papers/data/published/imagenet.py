"""ImageNet, the classification set of ILSVRC 2012, as it is unpacked; nothing is decoded."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import UInt8
from torch import Tensor

from papers.data.published.layout import found, listed_rows, numbers
from tutelage.errors import MissingExtraError, UsageError
from tutelage_cli.data.classes import encode
from tutelage_cli.data.decode import decode
from tutelage_cli.data.folders import Listed, list_folders
from tutelage_cli.data.resize import Size, covering

_LOG = logging.getLogger(__name__)
_NAME = "ImageNet"
_TRAIN = "unpack the training images into train, one folder for each class"
_VAL = "unpack the validation images into val"
_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
_DEVKIT = ("ILSVRC2012_devkit_t12/data", "data", "devkit/data", ".")


@dataclass(frozen=True)
class UndecodedImages:
    """N labelled image files, each decoded when its row is read: an ``ImageSet`` on disk."""

    files: Sequence[Path]
    """N"""
    labels: Tensor
    """int64 [N], places in ``classes``"""
    ids: Tensor
    """int64 [N]: row number in the source split, kept when rows are chosen or relabelled"""
    classes: tuple[str, ...]
    channels: int
    """3: grey images are made RGB; 1: only grey ones are read"""
    size: Size | None
    """what every image is brought to, about its centre; None to leave them"""

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, row: int) -> tuple[UInt8[Tensor, "channels H W"], Tensor]:
        """Decode an image."""
        file = self.files[row]
        image = torch.tensor(decode(file, where=str(file), root=Path()))
        if len(image) > self.channels:
            raise UsageError(f"{file} is in colour; give channels=3, or make it grey.")
        image = image.expand(self.channels, -1, -1)
        if self.size is not None:
            image = covering(image[None], self.size)[0]
        return image, self.labels[row]

    def rows(self, indices: Tensor) -> "UndecodedImages":
        """The images at the given places, in that order, with the ids they had."""
        files = [self.files[row] for row in indices.tolist()]
        labels, ids = self.labels[indices], self.ids[indices]
        return replace(self, files=files, labels=labels, ids=ids)

    def with_labels(self, labels: Tensor) -> "UndecodedImages":
        """The same images under other labels."""
        return replace(self, labels=labels)


def open_folder(
    root: str | Path, *, channels: int = 3, size: tuple[int, int] | None = None
) -> tuple[UndecodedImages, UndecodedImages | None]:
    """The splits of a folder of images, by the rules of ``tutelage_cli.data.folders``."""
    if channels not in (1, 3):
        raise UsageError(f"channels is {channels}; allowed: 1, 3.")
    place = Path(root).expanduser()
    if not place.is_dir():
        raise UsageError(f"there is no folder {place}.")
    to = None if size is None else Size(*size)
    train, test = list_folders(place)
    tested = None if test is None else undecoded(test, channels=channels, size=to)
    return undecoded(train, channels=channels, size=to), tested


def undecoded(split: Listed, *, channels: int, size: Size | None) -> UndecodedImages:
    """The images of a split, none of them opened."""
    for note in split.notes:
        _LOG.warning(note)
    labels = encode(split.labels, split.classes, where=split.where)
    ids = torch.arange(len(labels))
    return UndecodedImages(split.files, labels, ids, split.classes, channels, size)


class Parts(NamedTuple):
    """Both parts that have labels."""

    train: UndecodedImages
    val: UndecodedImages


def open_imagenet(root: Path) -> Parts:
    """The images of ImageNet, or of any set laid out like it.

    ``train`` holds one folder for each class, and so may ``val``. Where ``val`` holds the
    images themselves, as published, their classes come from the development kit
    ``ILSVRC2012_devkit_t12`` beside it. It is a UsageError if one of these is missing, or does
    not fit the others.
    """
    train = list_folders(found(root, "train", dataset=_NAME, hint=_TRAIN))[0]
    place = found(root, "val", dataset=_NAME, hint=_VAL)
    if any(path.is_dir() for path in place.iterdir()):
        val = list_folders(place)[0]
    else:
        val = _flat(root, place)
    val = val._replace(classes=train.classes)
    return Parts(*(undecoded(part, channels=3, size=None) for part in (train, val)))


def first_classes(part: UndecodedImages, count: int) -> UndecodedImages:
    """The images of the first classes, in the order of their names."""
    kept = part.rows((part.labels < count).nonzero().flatten())
    return replace(kept, classes=part.classes[:count])


def _flat(root: Path, place: Path) -> Listed:
    files = sorted(path for path in place.iterdir() if path.suffix.casefold() == ".jpeg")
    places = [f"{folder}/{_TRUTH}" for folder in _DEVKIT]
    truth = found(root, *places, dataset=_NAME, hint="unpack the development kit there")
    rows = numbers([row[0] for row in listed_rows(truth, columns=1)], where=truth)
    if len(rows) != len(files):
        raise UsageError(
            f"{place} holds {len(files)} images that end in .JPEG, but {truth} lists "
            f"{len(rows)}; unpack both again."
        )
    names = _names(truth.with_name("meta.mat"))
    if unknown := sorted(set(rows) - set(names)):
        raise UsageError(f"{truth} has the class {unknown[0]}, which meta.mat beside it lacks.")
    labels = [names[number] for number in rows]
    return Listed(files, labels, tuple(sorted(set(labels))), str(place))


def _names(file: Path) -> dict[int, str]:
    # the folder of each class by the number that the list of labels has
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise MissingExtraError("scipy", "train") from error
    try:
        rows: Any = loadmat(str(file), squeeze_me=True)["synsets"]
        return {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise UsageError(
            f"{file} is not the list of classes of the development kit ({error}); unpack it "
            "again."
        ) from error
