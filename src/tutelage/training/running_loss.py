"""What the student steps of a run add up to."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class RunningLoss:
    """The loss of all steps, and how many of them taught nothing; kept where the student is.

    Losses that are not finite are left out of the sum, and counted.

    Args:
        device: Where that is.
    """

    def __init__(self, device: torch.device) -> None:
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        self.not_finite = torch.zeros((), dtype=torch.int64, device=device)
        self.weightless = torch.zeros((), dtype=torch.int64, device=device)
        self.warned = False

    def add(self, loss: Tensor, weight: Tensor) -> None:
        """Count a step."""
        loss = loss.detach().to(self.loss_sum)
        finite = loss.isfinite()
        self.loss_sum += loss.where(finite, 0)
        self.not_finite += ~finite
        self.weightless += weight == 0

    def mean_loss(self, steps: int) -> float:
        """The mean loss of the steps whose loss was finite; waits for the device."""
        return float(self.loss_sum / (steps - self.not_finite).clamp(min=1))

    def warn_of_weightless_steps(self) -> None:
        """Warn, once, where a batch carried no weight at all; waits for the device."""
        if not self.warned and int(self.weightless):
            self.warned = True
            warnings.warn(
                f"{int(self.weightless)} batches carried no weight at all so far: the teacher "
                "gave every example of them weight 0, and the student learnt nothing.",
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {
            "loss_sum": self.loss_sum,
            "not_finite": self.not_finite,
            "weightless": self.weightless,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that ``state_dict`` gave."""
        device = self.loss_sum.device  # checkpoints are often loaded onto the CPU
        self.loss_sum = state["loss_sum"].to(device, copy=True)
        self.weightless = state["weightless"].to(device, copy=True)
        missing = torch.zeros_like(self.not_finite)  # from checkpoints of before it was counted
        self.not_finite = state.get("not_finite", missing).to(device, copy=True)
