"""Labelled feature vectors."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float32
from torch import Tensor

from tutelage.data.order import BatchRequest
from tutelage.errors import UsageError
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Labelled
from tutelage_cli.data.mapped import Rows, chosen, concatenated
from tutelage_cli.data.text.text_set import TextSet

_AT_ONCE = 4096
"""rows that are held in float64 at a time"""
_ROUNDING = 1e-13
"""a standard deviation up to this share of the column's mean counts as none: rounding in
float64; in float32, equal values alone have less"""


@dataclass(frozen=True)
class FeatureSet(Labelled):
    """N labelled vectors of D numbers."""

    example = "row"
    features: Rows
    """float32 [N, D]"""
    labels: Tensor
    ids: Tensor
    classes: tuple[str, ...]
    name: str
    sources: tuple[str, ...] = ()
    computed_from: ImageSet | TextSet | None = None
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
        self.require_labels(len(self.features))

    def names(self) -> list[str]:
        """What every row is called: after the example it was computed from, or its id."""
        return super().names() if self.computed_from is None else self.computed_from.names()

    def contents(self) -> Iterator[bytes]:
        """What makes a row another one than those before and after it."""
        if self.computed_from is not None:
            yield from self.computed_from.contents()
            return
        for row in self.features:
            yield row.numpy().tobytes()

    def tensors(self) -> tuple[Rows, ...]:
        """All that decides what a student sees."""
        if self.computed_from is not None:
            digest = torch.frombuffer(bytearray(self.by.encode() or b"-"), dtype=torch.uint8)
            return *self.computed_from.tensors(), self.labels, digest
        return self.features, self.labels, self.ids

    def columns_with(self, other: "FeatureSet") -> dict[str, Any]:
        """The features of both."""
        both = concatenated(self.features, other.features)
        return {"features": both, "computed_from": None, "by": ""}

    def refuse_unlike(self, test: Any) -> None:
        """Refuse test vectors of another length."""
        ours, theirs = self.features.shape[1], test.features.shape[1]
        if ours != theirs:
            raise UsageError(
                f"{self.name} has vectors of {ours} numbers in train and of {theirs} in test; "
                "give as many in both."
            )

    def other_rows(self, indices: Tensor) -> dict[str, Any]:
        """The features, and the examples that they were computed from, at the given places."""
        return {
            "features": chosen(self.features, indices),
            "computed_from": None
            if self.computed_from is None
            else self.computed_from.rows(indices),
        }


@dataclass(frozen=True)
class CollateFeatures:
    """Collates rows to float32 [B, D], ``(x - mean)/std``."""

    mean: Tensor
    """[D]"""
    std: Tensor
    """[D]"""

    def __call__(
        self, examples: FeatureSet, request: BatchRequest, device: torch.device
    ) -> Tensor:
        """The inputs of one batch."""
        del device
        return (examples.features[request.rows] - self.mean) / self.std


def feature_statistics(
    examples: FeatureSet,
) -> tuple[Float32[Tensor, "D"], Float32[Tensor, "D"]]:
    """Mean and standard deviation of every feature, in float64 inside."""
    if not len(examples):
        raise UsageError(f"{examples.name} has no rows to take the mean of.")

    def mean_of(term: Callable[[Tensor], Tensor]) -> Tensor:
        count, width = examples.features.shape
        sums = torch.empty(-(-count // _AT_ONCE), width, dtype=torch.float64)
        for place, rows in enumerate(examples.features.split(_AT_ONCE)):
            sums[place] = term(rows.double()).sum(0)
        return sums.sum(0) / count

    mean = mean_of(lambda rows: rows)
    std = mean_of(lambda rows: (rows - mean) ** 2).sqrt()
    flat = (std <= _ROUNDING * mean.abs()) | (std.float() == 0)
    return mean.float(), torch.where(flat, torch.ones_like(std), std).float()
