"""Weights by the alignment of an example's gradient with the held-out gradient."""

from torch import Tensor

from tutelage.errors import UsageError
from tutelage.teacher import Teacher
from tutelage.types import Observation, PreparedBatch


class Aligned(Teacher):
    """``w_i = max(0, <g_i, g_V>) / sum_j max(0, <g_j, g_V>)``; nothing is learned.

    ``g_i`` is the gradient of example i's loss and ``g_V`` that of the held-out loss, both at
    the student before the step. For plain SGD of rate ``eta``, ``-eta <g_i, g_V>`` is the slope
    of the held-out loss after a step in the weight of example i, at weights of zero. A batch
    none of whose gradients points along the held-out one teaches nothing.

    Source: Ren et al. 2018, Learning to Reweight Examples for Robust Deep Learning,
    algorithm 1.
    """

    uses_alignments = True

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
        """Weights [L], clamped at zero."""
        if observation.alignments is None:
            raise UsageError(
                "Aligned weighs by held-out gradients, which only a Tutor's own steps have: "
                "train with a Tutor and give held_out at every step."
            )
        return observation.alignments.clamp(min=0)
