"""Labelled images as uint8 pixels, with further facts about each if there are some."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.labelled import Labelled, Splits
from tutelage_cli.data.mapped import Rows, chosen, concatenated, in_memory


@dataclass(frozen=True)
class ImageSet(Labelled):
    """N labelled images of one size."""

    example = "image"
    images: Rows
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

    def tensors(self) -> tuple[Rows, ...]:
        """All that a student sees."""
        return self.images, self.labels, self.ids

    def columns_with(self, other: "ImageSet") -> dict[str, Any]:
        """The images of both."""
        return {"images": concatenated(self.images, other.images)}

    def other_rows(self, indices: Tensor) -> dict[str, Any]:
        """The images at the given places, wherever they are."""
        return {"images": chosen(self.images, indices)}

    def in_memory(self) -> "ImageSet":
        """The same with the images as a tensor."""
        images = in_memory(self.images)
        return self if images is self.images else replace(self, images=images)

    def refuse_unlike(self, test: Any) -> None:
        """Refuse test images of another shape."""
        ours, theirs = (tuple(part.images.shape[1:]) for part in (self, test))
        if ours != theirs:
            raise UsageError(
                f"{self.name} has images [C, H, W] = {ours} in train and {theirs} in test; "
                "bring all images to one size."
            )


@dataclass(frozen=True)
class Described:
    """N labelled images, and facts about each."""

    images: ImageSet
    facts: Mapping[str, Tensor]
    """by name, each [N, ...]; who makes the images says which there are, and in which unit"""

    def __post_init__(self) -> None:
        """Check that there is one row of every fact for each image."""
        for name, fact in self.facts.items():
            if fact.shape[:1] != (len(self.images),):
                raise UsageError(
                    f"fact '{name}' of {self.images.name} has shape {tuple(fact.shape)}; give "
                    f"one row for each of its {len(self.images)} images."
                )

    def __len__(self) -> int:
        return len(self.images)

    def rows(self, indices: Tensor) -> "Described":
        """The images at the given places, with their facts."""
        facts = {name: fact[indices] for name, fact in self.facts.items()}
        return Described(self.images.rows(indices), facts)

    def with_ids_from(self, first: int) -> "Described":
        """The same under the ids ``first``, ``first + 1``, ..."""
        ids = self.images.ids.new_tensor(range(first, first + len(self)))
        return replace(self, images=replace(self.images, ids=ids, sources=()))


class ThreeParts(NamedTuple):
    """The training, held-out and test part."""

    train: Described
    held_out: Described
    """no id of it is one of train's"""
    test: Described

    def splits(self) -> Splits[ImageSet]:
        """Train and test without facts; the held-out part is left out."""
        return Splits(self.train.images, self.test.images)
