"""Meta-Weight-Net: a small network from an example's loss to its weight."""

from typing import ClassVar

from torch import Tensor, nn

from tutelage.objectives import Normalise
from tutelage.records import Lesson, Observation


class LossWeigher(nn.Module):
    """``w = sigma(MLP(loss))`` with one hidden ReLU layer; rescaled to mean 1 over the batch.

    Source: Shu et al. 2019, Meta-Weight-Net (hidden width 100).

    Args:
        width: Units of the hidden layer.
    """

    normalise: ClassVar[Normalise] = "mean"

    def __init__(self, *, width: int = 100) -> None:
        super().__init__()
        self.width = width
        self.net = nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, 1))

    def weigh(self, lesson: Lesson, observation: Observation) -> Tensor:  # noqa: ARG002 - the seam
        """How much each row counts.

        Args:
            lesson: What the student saw.
            observation: Its losses.

        Returns:
            Weights [L] in (0, 1).
        """
        return self.net(observation.losses.unsqueeze(1)).sigmoid().squeeze(1)
