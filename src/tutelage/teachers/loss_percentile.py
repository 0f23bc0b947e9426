"""A moving average of a percentile of the losses."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from tutelage.precision import upcast
from tutelage.types import Observation, PreparedBatch


class LossPercentile(nn.Module):
    """``level <- decay level + (1 - decay) percentile_p(losses)``, from 0, at every real step.

    Source: Jiang et al. 2018, MentorNet; the percentile is the nearest loss, and the average
    starts at 0, as in the paper's code.

    Args:
        percentile: p, a share.
        decay: Of the average, per step.

    Raises:
        ValueError: If one of them does not lie in [0, 1], or ``decay`` is 1.
    """

    memory: ClassVar = ("level",)

    def __init__(self, *, percentile: float, decay: float) -> None:
        super().__init__()
        if not 0 <= percentile <= 1:
            raise ValueError(f"percentile is a share in [0, 1], got {percentile}.")
        if not 0 <= decay < 1:
            raise ValueError(f"decay must lie in [0, 1), got {decay}.")
        self.percentile = percentile
        self.decay = decay
        self.level: Tensor
        self.register_buffer("level", torch.zeros(()))

    def forward(self, losses: Tensor) -> Tensor:
        """The average including this batch; the buffer is unchanged."""
        if not len(losses):
            return self.level.clone()
        now = upcast(losses).quantile(self.percentile, interpolation="nearest")
        return self.decay * self.level + (1 - self.decay) * now

    def remember(
        self,
        prepared: PreparedBatch,  # noqa: ARG002 - the interface
        observation: Observation,
    ) -> Mapping[str, Tensor]:
        """The average after a step."""
        return {"level": self(observation.losses)}
