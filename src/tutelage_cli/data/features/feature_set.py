"""Labelled feature vectors held in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float32
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.images import ImageSet, refuse_other_classes
from tutelage_cli.data.text.text_set import TextSet

_AT_ONCE = 4096
"""rows that are held in float64 at a time"""
_LEAST = 1e-6
"""a standard deviation below this share of the largest one counts as none"""


@dataclass(frozen=True)
class FeatureSet:
    """N labelled vectors of D numbers."""

    features: Tensor
    """float32 [N, D]"""
    labels: Tensor
    """int64 [N], each in 0..len(classes) - 1"""
    ids: Tensor
    """int64 [N]: row number in the source split, kept when rows are chosen or relabelled"""
    classes: tuple[str, ...]
    """the name of every class, in the order of the labels"""
    name: str
    """the data set's name"""
    sources: tuple[str, ...] = ()
    """by id, not by place: what each row of the source split is called; empty where rows have
    no names"""
    of: ImageSet | TextSet | None = None
    """the N examples that the features were computed from, where they were"""
    by: str = ""
    """digest of the network that computed them, and of its preprocessing"""

    def __post_init__(self) -> None:
        """Check lengths, types and the range of the labels."""
        if self.features.dtype != torch.float32 or self.features.ndim != 2:
            raise UsageError(
                f"features of {self.name} are {self.features.dtype} of shape "
                f"{tuple(self.features.shape)}; give torch.float32 of shape [N, D]."
            )
        for role, column in (("labels", self.labels), ("ids", self.ids)):
            if column.dtype != torch.int64 or column.shape != self.features.shape[:1]:
                raise UsageError(
                    f"{role} of {self.name} are {column.dtype} of shape {tuple(column.shape)}; "
                    f"give torch.int64 of shape [{len(self.features)}], one for each row."
                )
        refuse_other_classes(self)

    def __len__(self) -> int:
        return len(self.labels)

    def names(self) -> list[str]:
        """What every row is called: after the example it was computed from, or its id."""
        if self.of is not None:
            return self.of.names()
        if not self.sources:
            return [str(number) for number in self.ids.tolist()]
        return [self.sources[number] for number in self.ids.tolist()]

    def contents(self) -> Iterator[bytes]:
        """What makes a row another one than those before and after it."""
        if self.of is not None:
            yield from self.of.contents()
            return
        for row in self.features:
            yield row.numpy().tobytes()

    def tensors(self) -> tuple[Tensor, ...]:
        """All that decides what a student sees."""
        if self.of is not None:
            digest = torch.frombuffer(bytearray(self.by.encode() or b"-"), dtype=torch.uint8)
            return *self.of.tensors(), self.labels, digest
        return self.features, self.labels, self.ids

    def rows(self, indices: Tensor) -> "FeatureSet":
        """The rows at the given places, in that order, with the ids they had."""
        return replace(
            self,
            features=self.features[indices],
            labels=self.labels[indices],
            ids=self.ids[indices],
            of=None if self.of is None else self.of.rows(indices),
        )

    def with_labels(self, labels: Tensor) -> "FeatureSet":
        """The same vectors under other labels."""
        return replace(self, labels=labels)


class FeatureParts(NamedTuple):
    """The two parts of a table of features; both have the same classes and width."""

    train: FeatureSet
    """for learning"""
    test: FeatureSet
    """for the final figure only"""
    notes: tuple[str, ...] = ()
    """what is worth knowing about the source, a sentence each"""


def feature_statistics(
    of: FeatureSet,
) -> tuple[Float32[Tensor, "D"], Float32[Tensor, "D"]]:
    """Mean and standard deviation of every feature, in float64 inside."""
    if not len(of):
        raise UsageError(f"{of.name} has no rows to take the mean of.")
    chunks, count = of.features.split(_AT_ONCE), len(of)
    mean = torch.stack([rows.double().sum(0) for rows in chunks]).sum(0) / count
    squares = [((rows.double() - mean) ** 2).sum(0) for rows in chunks]
    std = (torch.stack(squares).sum(0) / count).sqrt()
    flat = std <= _LEAST * std.max()
    return mean.float(), torch.where(flat, torch.ones_like(std), std).float()
