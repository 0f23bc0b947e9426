"""Baseline: blending by a shuffled learned grid."""

import torch
from torch import Tensor

from tutelage.teacher import Teacher
from tutelage.teachers.blending import Blending, blend_by_class
from tutelage.types import Batch, PreparedBatch


class Shuffled(Teacher):
    """Learned blending shares, shuffled over pairs of classes; nothing is learned.

    The entries of the grid, the diagonal included, are permuted once.

    Source: Raghu et al. 2021, Teaching with Commentaries, section 4 (the shuffled baseline).

    Args:
        learned: The learned grid; copied.
        seed: What the permutation is drawn from.

    Attributes:
        shares: lambda [C, C]; a buffer.
    """

    shares: Tensor
    constant_buffers = ("shares",)

    def __init__(self, learned: Blending, *, seed: int) -> None:
        super().__init__()
        shares = learned.shares.detach()
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(shares.numel(), generator=generator).to(shares.device)
        self.register_buffer("shares", shares.flatten()[order].reshape(shares.shape))

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Blend a batch."""
        return blend_by_class(batch, self.shares)
