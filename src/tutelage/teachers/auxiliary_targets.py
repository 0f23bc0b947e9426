"""Auxiliary targets, learned for a second output of the student."""

from torch import Tensor, nn

from tutelage.teacher import Teacher
from tutelage.types import Batch, PreparedBatch, as_prepared


class AuxiliaryTargets(Teacher):
    """``t(x) = tanh(network(x))``: targets in (-1, 1) for a second head of the student.

    The student gives a tuple (logits, t^) and is trained with ``objectives.Auxiliary``, which
    adds the mean squared distance of t^ from t. Held-out examples have the loss of the logits
    alone.

    Source: Raghu et al. 2021, Teaching with Commentaries, appendix A (40 targets for CelebA).

    Note: batch normalisation of ``network`` stays in the mode it is in; training mode is how it
    learned.

    Args:
        network: From inputs [B, ...] to one row of numbers each, [B, ...].
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Add auxiliary targets to a batch."""
        aux: Tensor = self.network(batch.inputs).tanh()
        return as_prepared(batch)._replace(aux=aux)
