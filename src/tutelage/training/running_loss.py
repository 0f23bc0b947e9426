"""The running mean of the training loss."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class RunningLoss:
    """Sums the losses of all steps on the student's device, and counts steps without weight.

    Losses that are not finite are left out of the sum, and counted.
    """

    def __init__(self, device: torch.device) -> None:
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        self.not_finite = torch.zeros((), dtype=torch.int64, device=device)
        self.weightless = torch.zeros((), dtype=torch.int64, device=device)
        self.warned = False

    def add(self, loss: Tensor, weight: Tensor) -> None:
        """Add a step."""
        loss = loss.detach().to(self.loss_sum)
        finite = loss.isfinite()
        self.loss_sum += loss.where(finite, 0)
        self.not_finite += ~finite
        self.weightless += weight == 0

    def mean_loss(self, steps: int) -> float:
        """The mean of the finite losses; synchronises with the device."""
        return float(self.loss_sum / (steps - self.not_finite).clamp(min=1))

    def warn_of_weightless_steps(self) -> None:
        """Warn once of batches whose weights are all zero; synchronises with the device."""
        if not self.warned and int(self.weightless):
            self.warned = True
            warnings.warn(
                f"{int(self.weightless)} batches carried no weight at all so far: the teacher "
                "gave every example of them weight 0, and the student learned nothing.",
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """The sums as tensors."""
        return {
            "loss_sum": self.loss_sum,
            "not_finite": self.not_finite,
            "weightless": self.weightless,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state of ``state_dict``."""
        device = self.loss_sum.device  # checkpoints are often loaded onto the CPU
        self.loss_sum = state["loss_sum"].to(device, copy=True)
        self.weightless = state["weightless"].to(device, copy=True)
        missing = torch.zeros_like(self.not_finite)  # from checkpoints of before it was counted
        self.not_finite = state.get("not_finite", missing).to(device, copy=True)
