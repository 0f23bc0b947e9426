"""What the student steps of a run add up to."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class Tally:
    """The loss of all steps, and how many of them taught nothing; kept where the student is.

    Args:
        device: Where that is.
    """

    def __init__(self, device: torch.device) -> None:
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        self.weightless = torch.zeros((), dtype=torch.int64, device=device)
        self.warned = False

    def add(self, loss: Tensor, weight: Tensor) -> None:
        """Count a step.

        Args:
            loss: What the student descended, a scalar.
            weight: The sum of the teacher's weights, a scalar.
        """
        self.loss_sum += loss.detach().to(self.loss_sum)
        self.weightless += weight == 0

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
        """What a checkpoint keeps.

        Returns:
            Two tensors by name.
        """
        return {"loss_sum": self.loss_sum, "weightless": self.weightless}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that ``state_dict`` gave.

        Args:
            state: That state, on any device; may hold more.
        """
        device = self.loss_sum.device  # checkpoints are often loaded onto the CPU
        self.loss_sum = state["loss_sum"].to(device, copy=True)
        self.weightless = state["weightless"].to(device, copy=True)
