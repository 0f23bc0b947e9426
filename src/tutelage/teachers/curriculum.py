"""Example-weight curricula: a network of the input and of how far training has come."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from tutelage.objectives import Normalise
from tutelage.records import Lesson, Observation


class Curriculum(nn.Module):
    """``t(x, i) = sigma(network(x, i / N))``, one weight in (0, 1) per example, not rescaled.

    The iteration enters as one more input channel of the constant value i / N. Keep batch
    normalisation of ``network`` in training mode, also when the commentary is reused: that is
    how it was learnt. In training mode a constant channel reaches the output only through the
    zero padding of the first convolution, so the padding must be zeros.

    Source: Raghu et al. 2021, Teaching with Commentaries, section 3.

    Args:
        network: From [B, channels + 1, H, W] (or without the extra channel) to [B, 1].
        iteration: Whether ``network`` takes the iteration channel; without it the commentary
            is the paper's non-curriculum ablation.
    """

    normalise: ClassVar[Normalise] = None

    def __init__(self, network: nn.Module, *, iteration: bool = True) -> None:
        super().__init__()
        self.network = network
        self.uses_progress = iteration

    def weigh(self, lesson: Lesson, observation: Observation) -> Tensor:
        """How much each row counts.

        Args:
            lesson: What the student saw, inputs [L, channels, H, W].
            observation: Its progress.

        Returns:
            Weights [L] in (0, 1).
        """
        inputs = lesson.inputs
        if self.uses_progress:
            when = torch.full_like(inputs[:, :1], observation.progress.fraction)
            inputs = torch.cat([inputs, when], 1)
        return self.network(inputs).sigmoid().squeeze(1)
