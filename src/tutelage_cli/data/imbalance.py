"""Classes of very different size: a long-tailed part of a balanced set."""

import torch
from jaxtyping import Int64
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed


def long_tailed_rows(
    labels: Int64[Tensor, "N"], factor: float, classes: int, *, seed: int
) -> Int64[Tensor, "M"]:
    """Random rows such that class c keeps ``n factor^(-c / (C - 1))`` of them.

    With n the size of the smallest class, the first class keeps n and the last n / factor;
    each keeps one at least.

    Source: Cui et al. 2019, "Class-Balanced Loss Based on Effective Number of Samples".
    """
    if not 1 <= factor < float("inf"):
        raise UsageError(
            f"--imbalance is {factor:g}; allowed: 1 (none) and above, such as 100."
        )
    counts = torch.bincount(labels, minlength=classes)
    if not int(counts.min()):
        empty = int(counts.argmin())
        raise UsageError(f"--imbalance needs images of every class; {empty} has none.")
    largest, chosen = int(counts.min()), []
    for c in range(classes):
        share = factor ** (-c / max(classes - 1, 1))
        rows = (labels == c).nonzero().flatten()
        draws = torch.Generator().manual_seed(mixed_seed(seed, c))
        order = torch.randperm(len(rows), generator=draws)
        chosen.append(rows[order[: max(1, int(largest * share))]])
    return torch.cat(chosen).sort().values
