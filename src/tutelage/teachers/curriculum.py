"""Example-weight curricula: a network of the input and the training progress."""

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from tutelage.errors import require_known
from tutelage.losses.objectives import Normalise
from tutelage.teacher import Teacher
from tutelage.types import Observation, PreparedBatch

Beyond = Literal["paper", "safe"]


class Curriculum(Teacher):
    """``t(x, i) = sigma(network(x, i / N))``, one weight in (0, 1) per example, not rescaled.

    The iteration enters as one more input channel of the constant value i / N, where N is the
    tutor's ``total_steps``. ``network`` stays in training mode, whatever ``train`` and ``eval``
    say: batch normalisation by the batch at hand is how a commentary is learned and reused. It
    takes a constant channel out but at the zero padding of the first convolution, through which
    alone the iteration is seen, so the padding must be zeros.

    Source: Raghu et al. 2021, Teaching with Commentaries, section 3.

    Args:
        network: From [B, channels + 1, H, W] (or without the extra channel) to [B, 1].
        iteration: Whether ``network`` takes the iteration channel; without it the commentary
            is the paper's non-curriculum ablation.
        beyond: What the channel holds where training goes on beyond the N steps that the
            teacher learned on: ``"paper"`` i / N as it is (its official code, up to 17), which
            no teacher has seen; ``"safe"`` 1.

    Raises:
        ValueError: If there is no such ``beyond``.
    """

    normalise: Normalise = None

    def __init__(
        self, network: nn.Module, *, iteration: bool = True, beyond: Beyond = "paper"
    ) -> None:
        super().__init__()
        require_known("Unknown beyond", beyond, get_args(Beyond))
        self.network = network
        self.uses_progress = iteration
        self.beyond: Beyond = beyond

    def train(self, mode: bool = True) -> "Curriculum":
        """Set the teacher's mode; its network stays in training mode."""
        super().train(mode)
        self.network.train()
        return self

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Weights [L] in (0, 1)."""
        inputs = prepared.inputs
        if self.uses_progress:
            when = observation.progress.fraction
            when = min(when, 1.0) if self.beyond == "safe" else when
            inputs = torch.cat([inputs, torch.full_like(inputs[:, :1], when)], 1)
        return self.network(inputs).sigmoid().squeeze(1)
