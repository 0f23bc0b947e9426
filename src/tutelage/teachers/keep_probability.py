"""Keep probabilities of learning to teach, from the student's state."""

import torch
from torch import Tensor, nn

from tutelage.losses.targets import one_hot
from tutelage.teacher import Teacher
from tutelage.teachers.internal_state import margin
from tutelage.types import Observation, PreparedBatch

HIDDEN = 12
"""units of the hidden layer"""
BIAS = 2.0
"""of the last layer at first: about 0.88 of all examples are kept"""


class KeepProbability(Teacher):
    """``sigma(MLP(x))``, one hidden layer of 12 tanh units, for ``KeepOrDrop``.

    x are 2 C + 5 facts: the label, one-hot; share of the run that is over, mean training loss,
    best held-out accuracy; the predicted probabilities; the loss, and the margin of the label.

    Source: Fan et al. 2018, Learning to Teach (L2T-data), section 4.

    Args:
        classes: C, the number of classes.
        attached: Keep ``dw/dtheta`` in the student's gradient. Without it a hypergradient over
            several steps leaves out what an earlier step does to later weights.
    """

    uses_progress = True

    def __init__(self, classes: int, *, attached: bool = False) -> None:
        super().__init__()
        self.classes = classes
        self.attached = attached
        last = nn.Linear(HIDDEN, 1)
        self.net = nn.Sequential(nn.Linear(2 * classes + 5, HIDDEN), nn.Tanh(), last)
        nn.init.constant_(last.bias, BIAS)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Keep probabilities [L]."""
        logits, targets, progress = observation.logits, prepared.targets, observation.progress
        soft = targets.is_floating_point()
        labels = targets if soft else one_hot(targets, self.classes, type(self).__name__)
        labels = labels.to(logits.dtype)
        facts = (progress.fraction, progress.mean_loss, progress.best_accuracy)
        columns = [
            labels,
            logits.new_tensor(facts).expand(len(logits), -1),
            logits.softmax(1),
            observation.losses.unsqueeze(1).to(logits.dtype),
            margin(logits, labels),
        ]
        return self.net(torch.cat(columns, 1)).sigmoid().squeeze(1)
