"""Weights of support examples in few-shot learning, by image, label and step."""

import torch
from torch import Tensor, nn

from tutelage.losses.objectives import Normalise, nonzero
from tutelage.losses.targets import one_hot
from tutelage.teacher import Teacher
from tutelage.types import Observation, PreparedBatch


class SupportWeights(Teacher):
    """``w_s = |S| t_s / sum t``, of mean 1 over the support set S.

    ``t = sigma(MLP(network(x, k / K), embedding of y))``, one hidden ReLU layer. Step k of K
    enters as one more constant input channel, as in ``Curriculum``; it is 1 where the student
    goes on for more than K steps. ``network`` stays in training mode, whatever ``train`` and
    ``eval`` say: batch normalisation is always by the batch at hand.

    Source: Raghu et al. 2021, Teaching with Commentaries, appendix B.3 (an embedding of 64,
    five steps); the width of the hidden layer and the step channel are ours.

    Args:
        network: From [S, channels + 1, H, W] to [S, F], such as ``tutelage.models.FourBlocks``.
        features: F.
        classes: C, of one task.
        width: Units of the label's embedding and of the hidden layer.
    """

    normalise: Normalise = None
    uses_progress = True

    def __init__(
        self, network: nn.Module, *, features: int, classes: int, width: int = 64
    ) -> None:
        super().__init__()
        self.network = network
        self.features = features
        self.classes = classes
        self.width = width
        self.embed = nn.Linear(classes, width)
        self.head = nn.Sequential(
            nn.Linear(features + width, width), nn.ReLU(), nn.Linear(width, 1)
        )

    def train(self, mode: bool = True) -> "SupportWeights":
        """Set the teacher's mode; its network stays in training mode."""
        super().train(mode)
        self.network.train()
        return self

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Weights of the support examples."""
        x = prepared.inputs
        step = torch.full_like(x[:, :1], min(observation.progress.fraction, 1.0))
        image = self.network(torch.cat([x, step], 1))
        label = one_hot(prepared.targets, self.classes, type(self).__name__).to(x.dtype)
        t = self.head(torch.cat([image, self.embed(label)], 1)).sigmoid().squeeze(1)
        t = t.to(torch.promote_types(t.dtype, torch.float32))  # half under autocast
        return len(t) * t / nonzero(t.sum())
