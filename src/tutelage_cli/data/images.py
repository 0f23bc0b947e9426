"""Labelled images held in memory as bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tutelage.errors import UsageError


@runtime_checkable
class Labelled(Protocol):
    """N examples with a class each, whatever they are."""

    @property
    def labels(self) -> Tensor:
        """int64 [N]."""
        ...

    @property
    def ids(self) -> Tensor:
        """int64 [N]: row numbers in the source split."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """The name of every class."""
        ...

    @property
    def name(self) -> str:
        """The data set's name."""
        ...

    def names(self) -> list[str]:
        """What every example is called."""
        ...

    def contents(self) -> Iterator[bytes]:
        """What makes an example another one than others, for each of the N."""
        ...


def refuse_other_classes(of: Labelled) -> None:
    """Refuse labels that are no class."""
    wrong = (of.labels < 0) | (of.labels >= len(of.classes))
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise UsageError(
            f"row {row} of {of.name} has label {int(of.labels[row])}; "
            f"allowed: 0..{len(of.classes) - 1}, the places in classes."
        )


@dataclass(frozen=True)
class ImageSet:
    """N labelled images of one size."""

    images: Tensor
    """uint8 [N, C, H, W]"""
    labels: Tensor
    """int64 [N], each in 0..len(classes) - 1"""
    ids: Tensor
    """int64 [N]: row number in the source split, kept when rows are chosen or relabelled"""
    classes: tuple[str, ...]
    """the name of every class, in the order of the labels"""
    name: str
    """the data set's name"""
    sources: tuple[str, ...] = ()
    """by id, not by place: what each row of the source split is called, such as the path of its
    file below the source; empty where rows have no names"""

    def __post_init__(self) -> None:
        """Check shapes, types and the range of the labels."""
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise UsageError(
                f"images of {self.name} are {self.images.dtype} of shape "
                f"{tuple(self.images.shape)}; give torch.uint8 of shape [N, C, H, W]."
            )
        for role, column in (("labels", self.labels), ("ids", self.ids)):
            if column.dtype != torch.int64 or column.shape != self.images.shape[:1]:
                raise UsageError(
                    f"{role} of {self.name} are {column.dtype} of shape {tuple(column.shape)}; "
                    f"give torch.int64 of shape [{len(self.images)}], one for each image."
                )
        if self.sources and len(self.ids) and int(self.ids.max()) >= len(self.sources):
            raise UsageError(
                f"sources of {self.name} name {len(self.sources)} rows, but there is the id "
                f"{int(self.ids.max())}; name every row of the source split."
            )
        refuse_other_classes(self)

    def __len__(self) -> int:
        return len(self.labels)

    def names(self) -> list[str]:
        """What every image is called, the same for as long as its file keeps its name."""
        if not self.sources:
            return [str(number) for number in self.ids.tolist()]
        return [self.sources[number] for number in self.ids.tolist()]

    def contents(self) -> Iterator[bytes]:
        """What makes an image another one than those before and after it."""
        shape = repr(tuple(self.images.shape[1:])).encode()
        for image in self.images:
            yield shape + image.numpy().tobytes()

    def tensors(self) -> tuple[Tensor, ...]:
        """All that a student sees."""
        return self.images, self.labels, self.ids

    def rows(self, indices: Tensor) -> "ImageSet":
        """The images at the given places, in that order, with the ids they had."""
        return replace(
            self,
            images=self.images[indices],
            labels=self.labels[indices],
            ids=self.ids[indices],
        )

    def with_labels(self, labels: Tensor) -> "ImageSet":
        """The same images under other labels."""
        return replace(self, labels=labels)


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
