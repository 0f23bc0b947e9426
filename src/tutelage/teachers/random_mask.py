"""Baseline: masks with random centres."""

import torch

from tutelage.teacher import Teacher
from tutelage.teachers.attention_mask import checked_sigma, gaussian
from tutelage.types import Batch, PreparedBatch, as_prepared


class RandomMask(Teacher):
    """``AttentionMask`` with centres uniform over the image, at training and at test.

    It is drawn for each example of each batch, much as an aggressive random crop.

    Source: Raghu et al. 2021, Teaching with Commentaries, appendix D (random mask baseline).

    Args:
        sigma: Standard deviation of the spot, in pixels.
        background: How much of an image is seen everywhere.

    Raises:
        ValueError: If sigma is not positive.
    """

    at_test = True

    def __init__(self, *, sigma: float, background: float = 0.0) -> None:
        super().__init__()
        self.sigma = checked_sigma(sigma)
        self.background = background

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Mask a batch."""
        x = batch.inputs
        height, width = x.shape[-2:]
        sides = torch.tensor([height, width], device="cpu")
        centre = (torch.rand(len(x), 2, device="cpu") * sides - 0.5).to(x.device, x.dtype)
        mask = gaussian(centre, height, width, self.sigma) + self.background
        return as_prepared(batch)._replace(inputs=x * mask)
