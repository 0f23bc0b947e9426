"""Labelled images that stay in their files until they are asked for."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.classes import encode
from tutelage_cli.data.decode import decode
from tutelage_cli.data.folders import Listed, list_folders
from tutelage_cli.data.resize import Size, covering

_LOG = logging.getLogger(__name__)


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
