"""Dynamic losses: the student's loss, given by the teacher."""

import torch
from torch import Tensor, nn

from tutelage.distributed.groups import batch_mean
from tutelage.losses.targets import one_hot
from tutelage.precision import FULL, autocast_to, upcast
from tutelage.teacher import Teacher
from tutelage.types import Observation, PreparedBatch

FACTS = 4
"""how many facts about the student's training the teacher sees"""


class DynamicLoss(Teacher):
    """The student minimises ``-sigma((W^T log p + b)_y)``; W and b change with time.

    ``W, b = MLP(s)``, one hidden tanh layer, of the state s: share of the run that is over,
    mean training loss, best held-out accuracy, and accuracy on the batch at hand. At first W is
    the identity and b zero whatever s is, so that the loss is ``-p / (1 + p)``. Held-out
    examples are evaluated by the objective.

    Source: Wu et al. 2018, Learning to Teach with Dynamic Loss Functions (L2T-loss). The
    network and its width are ours; the paper's student takes plain SGD steps, and its teacher
    learns through them (``Unrolled``, ``Replayed``).

    Note: in whole runs that a signal takes, mean loss and best accuracy stay 0.

    Args:
        classes: C, the number of classes.
        width: Units of the hidden layer.
    """

    uses_progress = True

    def __init__(self, classes: int, *, width: int = 16) -> None:
        super().__init__()
        self.classes = classes
        self.width = width
        last = nn.Linear(width, classes**2 + classes)
        self.net = nn.Sequential(nn.Linear(FACTS, width), nn.Tanh(), last)
        nn.init.zeros_(last.weight)
        with torch.no_grad():
            last.bias.copy_(torch.cat([torch.eye(classes).flatten(), torch.zeros(classes)]))

    def coefficients(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """W and b for a training state.

        Args:
            state: [4], see above.

        Returns:
            W [C, C] and b [C].
        """
        flat = self.net(state)
        square = self.classes**2
        return flat[:square].reshape(self.classes, self.classes), flat[square:]

    def row_losses(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Losses [L]."""
        logits, targets = upcast(observation.logits), prepared.targets
        soft = targets.is_floating_point()
        labels = targets if soft else one_hot(targets, self.classes, type(self).__name__)
        hits = (logits.argmax(1) == labels.argmax(1)).to(logits.dtype)
        right = batch_mean(hits)
        progress = observation.progress
        facts = (progress.fraction, progress.mean_loss, progress.best_accuracy)
        w, b = self.coefficients(torch.cat([logits.new_tensor(facts), right.unsqueeze(0)]))
        with autocast_to(
            FULL, logits.device
        ):  # a loss in half precision would not fall smoothly
            scores = logits.log_softmax(1) @ upcast(w) + upcast(b)
        return -(scores.sigmoid() * labels).sum(1)
