"""Baseline: blending by fixed random shares."""

import torch
from torch import Tensor

from tutelage.teacher import Teacher
from tutelage.teachers.blending import blend_by_class
from tutelage.types import Batch, PreparedBatch


class RandomBlending(Teacher):
    """``Blending`` with lambda uniform in [1/2, 1] for each class pair, fixed by a seed.

    Source: Raghu et al. 2021, Teaching with Commentaries, section 4 (the random baseline).

    Args:
        classes: C.
        seed: What the shares are drawn from.

    Attributes:
        shares: lambda [C, C]; a buffer.
    """

    shares: Tensor
    constant_buffers = ("shares",)

    def __init__(self, classes: int, *, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.empty(classes, classes).uniform_(0.5, 1, generator=generator)
        self.register_buffer("shares", drawn)

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Blend a batch."""
        return blend_by_class(batch, self.shares)
