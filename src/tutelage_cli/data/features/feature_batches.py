"""Minibatches of feature vectors, in the orders that images come in."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tutelage.data.order import BatchRequest
from tutelage.types import Batch
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.in_memory import InMemory


@dataclass(frozen=True)
class FeatureBatches(InMemory):
    """The minibatches of N rows; ``inputs`` are float32 [B, D], ``(x - mean)/std``."""

    features: FeatureSet
    size: int
    """rows in a batch"""
    seed: int
    """of every order and draw"""
    mean: Tensor
    """[D]"""
    std: Tensor
    """[D]"""
    device: torch.device
    """where the batches go"""

    def __post_init__(self) -> None:
        """Check that there is at least one batch; see the class."""
        self.require_some(self.features.name, "rows")

    @property
    def count(self) -> int:
        """N."""
        return len(self.features)

    def batch(self, request: BatchRequest) -> Batch:
        """One batch."""
        chosen = self.features
        inputs = (chosen.features[request.rows] - self.mean) / self.std
        columns = inputs, chosen.labels[request.rows], chosen.ids[request.rows]
        inputs, labels, ids = (column.to(self.device) for column in columns)
        return Batch(inputs, labels, ids, request.seed)
