"""Mixup: blending by one random share for each batch."""

import torch
from torch.distributions import Beta

from tutelage.teacher import Teacher
from tutelage.teachers.blending import blend, drawn_partner
from tutelage.types import Batch, PreparedBatch
from tutelage.validation.ranges import require_above_zero


class Mixup(Teacher):
    """``lambda ~ Beta(alpha, alpha)``, one for the whole batch; nothing is learned.

    Source: Zhang et al. 2018, mixup; the baseline of Raghu et al. 2021 has ``alpha=1``.

    Args:
        classes: C.
        alpha: Concentration of the distribution; 1 is uniform in 0..1.

    Raises:
        UsageError: If alpha is not positive and finite.
    """

    def __init__(self, classes: int, *, alpha: float) -> None:
        super().__init__()
        require_above_zero("alpha", alpha)
        self.classes = classes
        self.alpha = alpha

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Blend a batch."""
        partner, x = drawn_partner(batch), batch.inputs
        alpha = torch.tensor(self.alpha, dtype=torch.float64, device="cpu")
        share = Beta(alpha, alpha).sample().to(x.device)
        if x.dtype != torch.float64:
            share = share.float()
        return blend(batch, partner, share.expand(len(x)), self.classes)
