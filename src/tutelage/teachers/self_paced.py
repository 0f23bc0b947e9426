"""Self-paced learning: the easiest examples of each batch, more of them over time."""

import torch
from torch import Tensor

from tutelage.teacher import Teacher
from tutelage.types import Observation, PreparedBatch


class SelfPaced(Teacher):
    """Weight 1 for the share of a batch with the lowest losses, else 0; nothing is learned.

    At step t of T it is ``start + (end - start) min(1, t / (full_at T))``. At least one example
    is kept; of equal losses, those that come first.

    Source: Kumar et al. 2010, Self-Paced Learning for Latent Variable Models, where a threshold
    on the loss grows. Fan et al. 2021 compare with it and give no schedule: the defaults are
    ours.

    Args:
        start: Share kept at first.
        full_at: Share of the run after which ``end`` is reached.
        end: Share kept from there on; ``start`` too keeps the same share throughout.

    Raises:
        ValueError: If one of them does not lie in (0, 1].
    """

    uses_progress = True

    def __init__(self, *, start: float = 0.5, full_at: float = 0.5, end: float = 1.0) -> None:
        super().__init__()
        for name, share in (("start", start), ("full_at", full_at), ("end", end)):
            if not 0 < share <= 1:
                raise ValueError(f"{name} must lie in (0, 1], got {share}.")
        self.start = start
        self.full_at = full_at
        self.end = end

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
        """Weights [L] in {0, 1}."""
        losses = observation.losses
        grown = min(observation.progress.fraction / self.full_at, 1.0)
        share = self.start + (self.end - self.start) * grown
        easiest = losses.argsort(stable=True)[: max(round(share * len(losses)), 1)]
        return torch.zeros_like(losses).index_fill(0, easiest, 1.0)
