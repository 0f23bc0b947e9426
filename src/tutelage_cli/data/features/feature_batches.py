"""Minibatches of feature vectors, in the orders that images come in."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tutelage.data.order import BatchRequest
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.in_memory import OfSet


@dataclass(frozen=True)
class FeatureBatches(OfSet):
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

    @property
    def examples(self) -> FeatureSet:
        """The rows."""
        return self.features

    def inputs(self, request: BatchRequest) -> Tensor:
        """The inputs of one batch."""
        return (self.features.features[request.rows] - self.mean) / self.std
