"""Labelled images with further facts about each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.images import ImageSet, Splits


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

    def splits(self) -> Splits:
        """Train and test without facts; the held-out part is left out."""
        return Splits(self.train.images, self.test.images)
