"""Meta label correction: the teacher replaces each given label by a soft one of its own."""

import torch
from torch import Tensor, nn

from tutelage.losses.targets import one_hot
from tutelage.precision import FULL, autocast_to, upcast
from tutelage.teachers.internal_state import internal_of, width_of
from tutelage.types import Observation, PreparedBatch


class MetaLabelCorrection(nn.Module):
    """The student descends ``-sum_c t_c log p_c``, ``t = softmax(g(h(x), y))``.

    g is an MLP of two hidden tanh layers over h(x), the student's features at a tap, and an
    embedding of the given label y. No gradient flows back through h(x), so that a hypergradient
    over several steps leaves out what an earlier step does to later targets. Held-out examples
    are evaluated by the objective.

    Source: Zheng et al. 2021, Meta Label Correction for Noisy Label Learning (MLC), equations 1
    and 2; layers, sizes and start as in its code.

    Note: the paper's teacher learns from the last student step, with the steps before it in a
    moving sum of Hessian terms (its k-step gradient); here any signal teaches it. Its code can
    train the student on the held-out examples, too; here they are for the held-out loss alone.

    Args:
        student: The student; its shapes are read here, and it is not kept.
        classes: C, the number of classes.
        tap: The student's module whose flattened output is h(x).
        embedding: Numbers for each given label.
        width: Units of each hidden layer.
        tap_width: Features per example at ``tap``, where it cannot be read off the student.
    """

    def __init__(
        self,
        student: nn.Module,
        *,
        classes: int,
        tap: str,
        embedding: int = 64,
        width: int = 128,
        tap_width: int | None = None,
    ) -> None:
        super().__init__()
        self.classes = classes
        self.taps = (tap,)
        self.embedding = embedding
        self.width = width
        self.tap_width = width_of(student, tap, tap_width)
        self.labels = nn.Linear(classes, embedding, bias=False)
        self.net = nn.Sequential(
            nn.Linear(self.tap_width + embedding, width),
            nn.Tanh(),
            nn.Linear(width, width),
            nn.Tanh(),
            nn.Linear(width, classes),
        )
        nn.init.xavier_uniform_(self.labels.weight)
        for layer in self.net:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_normal_(layer.weight)
                nn.init.zeros_(layer.bias)

    def corrected(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Soft targets [L, C] in place of the given labels."""
        targets, (tap,) = prepared.targets, self.taps
        soft = targets.is_floating_point()
        given = targets if soft else one_hot(targets, self.classes, type(self).__name__)
        features = internal_of(observation, tap, self.tap_width).detach()
        with autocast_to(FULL, features.device):
            own = self.labels.weight.dtype
            seen = [features.to(own), self.labels(given.to(own))]
            return self.net(torch.cat(seen, 1)).softmax(1)

    def row_losses(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Cross entropy [L] with the corrected targets, in nats."""
        log_p = upcast(observation.logits).log_softmax(1)
        return -(self.corrected(prepared, observation).to(log_p) * log_p).sum(1)
