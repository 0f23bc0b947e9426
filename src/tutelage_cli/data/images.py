"""Labelled images held in memory as bytes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.labelled import Labelled


@dataclass(frozen=True)
class ImageSet(Labelled):
    """N labelled images of one size."""

    example = "image"
    images: Tensor
    """uint8 [N, C, H, W]"""
    labels: Tensor
    ids: Tensor
    classes: tuple[str, ...]
    name: str
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check shapes, types and the range of the labels."""
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise UsageError(
                f"images of {self.name} are {self.images.dtype} of shape "
                f"{tuple(self.images.shape)}; give torch.uint8 of shape [N, C, H, W]."
            )
        self.require_labels(len(self.images))
        if self.sources and len(self.ids) and int(self.ids.max()) >= len(self.sources):
            raise UsageError(
                f"sources of {self.name} name {len(self.sources)} rows, but there is the id "
                f"{int(self.ids.max())}; name every row of the source split."
            )

    def contents(self) -> Iterator[bytes]:
        """What makes an image another one than those before and after it."""
        shape = repr(tuple(self.images.shape[1:])).encode()
        for image in self.images:
            yield shape + image.numpy().tobytes()

    def tensors(self) -> tuple[Tensor, ...]:
        """All that a student sees."""
        return self.images, self.labels, self.ids

    def columns_with(self, other: "ImageSet") -> dict[str, Any]:
        """The images of both."""
        return {"images": torch.cat([self.images, other.images])}


@dataclass(frozen=True)
class Splits:
    """The two parts of a data set."""

    train: ImageSet
    """for learning"""
    test: ImageSet
    """for the final figure only"""
    notes: tuple[str, ...] = ()
    """what is worth knowing about the source, a sentence each: what was left out of it, classes
    that no example has, classes that may be one"""

    def __post_init__(self) -> None:
        """Check that both parts have the same classes and shape."""
        if self.train.classes != self.test.classes:
            raise UsageError(
                f"{self.train.name} has classes {', '.join(self.train.classes)} in train and "
                f"{', '.join(self.test.classes)} in test; both must list the same."
            )
        train, test = (tuple(part.images.shape[1:]) for part in (self.train, self.test))
        if train != test:
            raise UsageError(
                f"{self.train.name} has images [C, H, W] = {train} in train and {test} in "
                "test; bring all images to one size."
            )
