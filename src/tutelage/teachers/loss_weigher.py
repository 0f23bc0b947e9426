"""Meta-Weight-Net: a small network from an example's loss to its weight."""

from torch import Tensor, nn

from tutelage.losses.objectives import Normalise
from tutelage.teacher import Teacher
from tutelage.types import Observation, PreparedBatch


class LossWeigher(Teacher):
    """``w = sigma(MLP(loss))`` with one hidden ReLU layer.

    Source: Shu et al. 2019, Meta-Weight-Net (hidden width 100); see
    ``tutelage.training.meta_weight_net`` for both of its scripts.

    Args:
        width: Units of the hidden layer.
        normalise: ``"mean"`` rescales weights to mean 1 over the batch, as in the paper; None
            leaves them, as the authors' later script does.
        attached: Keep ``dw/dtheta`` in the student's gradient. Without it a hypergradient over
            several steps leaves out what an earlier step does to later weights.

    Raises:
        ValueError: If ``normalise`` is something else.
    """

    def __init__(
        self, *, width: int = 100, normalise: Normalise = "mean", attached: bool = False
    ) -> None:
        super().__init__()
        if normalise not in ("mean", None):
            raise ValueError(f"normalise must be 'mean' or None, got '{normalise}'.")
        self.width = width
        self.attached = attached
        self.normalise: Normalise = normalise
        self.net = nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, 1))

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
        """Weights [L] in (0, 1)."""
        return self.net(observation.losses.unsqueeze(1)).sigmoid().squeeze(1)
