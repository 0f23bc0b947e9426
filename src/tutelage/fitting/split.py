"""Which checked examples the teacher learns by, and which choose the best epoch."""

import torch
from torch import Tensor

from tutelage.randomness import mixed_seed

VALIDATION_SHARE = 0.25
"""of the checked examples of each class: those that choose the epoch"""
_SPLIT = 5
"""first part of the split's seed"""


def split_checked(labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Split checked examples by class: a quarter chooses, at least one of a class of two.

    Returns the indices of those that the teacher learns by, and of those that choose.
    """
    generator = torch.Generator().manual_seed(mixed_seed(_SPLIT, seed))
    order = torch.randperm(len(labels), generator=generator)
    chooses = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique().tolist():
        rows = order[labels[order] == label]
        most = len(rows) - 1  # a single one is the teacher's
        chooses[rows[: min(most, max(1, round(VALIDATION_SHARE * len(rows))))]] = True
    return (~chooses).nonzero()[:, 0], chooses.nonzero()[:, 0]
