"""Weights of copies by their losses: the maximal expected loss."""

import torch
from torch import Tensor

from tutelage.losses.objectives import Normalise
from tutelage.teacher import Teacher
from tutelage.teachers.group_reductions import group_softmax
from tutelage.types import Observation, PreparedBatch


class WorstCase(Teacher):
    """``P_z = softmax_z(l_z / temperature)`` over the copies z of an example (MMEL-H).

    P maximises ``sum_z P_z l_z - temperature KL(P || uniform)``. By the envelope theorem the
    gradient of that maximum is ``sum_z P_z grad l_z``, so that P is a weight like any other and
    has no part in the student's gradient. A higher temperature is nearer to the mean over
    copies (``UniformCopies``), a lower one to their maximum.

    Source: Yi et al. 2021, Reweighting Augmented Samples by Minimizing the Maximal Expected
    Loss, theorem 1; eq. 13 there lacks the temperature.

    Args:
        temperature: ``lambda_P``, in the unit of the losses; infinity weighs all the same.
        drop_below: Share of the sum of the rows' gradients that a step may skip; 0 skips none.
        attached: Keep ``dw/dtheta`` in the student's gradient. Without it a hypergradient over
            several steps leaves out what an earlier step does to later weights.

    Raises:
        ValueError: If the temperature is not positive, the share outside 0..1, or rows are left
            out of a gradient that keeps the weights' own.
    """

    normalise: Normalise = "group"

    def __init__(
        self, temperature: float, *, drop_below: float = 0.0, attached: bool = False
    ) -> None:
        super().__init__()
        require_positive("temperature", temperature)
        require_share(drop_below)
        if attached and drop_below:
            raise ValueError(
                f"drop_below={drop_below} bounds what weights leave out of the gradient, which "
                "attached=True adds to: give one of them."
            )
        self.temperature = temperature
        self.drop_below = drop_below
        self.attached = attached

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Weights [L] of the copies."""
        return group_softmax(observation.losses / self.temperature, prepared.group)


class UniformCopies(Teacher):
    """Equal weights of all copies, the baseline (DA+UNI)."""

    normalise: Normalise = "group"

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
        """Weights [L] of the copies."""
        return torch.ones_like(observation.losses)


def require_positive(name: str, value: float) -> None:
    """Raise if a number is not above zero."""
    if not value > 0:
        raise ValueError(f"{name} must be above 0, got {value}.")


def require_share(drop_below: float) -> None:
    """Raise if a number is not a share."""
    if not 0 <= drop_below <= 1:
        raise ValueError(f"drop_below must lie in 0..1, got {drop_below}.")
