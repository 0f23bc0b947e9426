"""Summary statistics of the weights of a step."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

QUANTILES = {"min": 0.0, "q10": 0.1, "median": 0.5, "q90": 0.9, "max": 1.0}
"""shares of rows whose weight is at most the number of that name"""


def weight_numbers(weights: Float[Tensor, "L"]) -> dict[str, Tensor]:
    """Quantiles, effective sample size and entropy of L weights.

    ``effective_size = (sum w)^2 / sum w^2``, in rows: L where all weigh the same, 1 where one
    alone does, 0 where none does. ``entropy = -sum p log p`` with ``p = w / sum w``, in nats:
    log L at most; NaN where weights sum to nothing or one is negative.

    Args:
        weights: As the teacher gives them, before normalisation; L at least 1.

    Returns:
        Scalars where the weights are, so that nothing waits for the device: ``mean``, those of
        ``QUANTILES`` (interpolated linearly), ``effective_size``, ``entropy``.

    Source: Kish 1965, Survey Sampling, for the effective size.
    """
    w = weights.detach().float()
    total, squares = w.sum(), w.square().sum()
    none = torch.zeros_like(total)
    shares = torch.tensor(list(QUANTILES.values()), dtype=w.dtype).to(w.device)
    found: Mapping[str, Tensor] = dict(zip(QUANTILES, w.quantile(shares), strict=True))
    p = w / total
    return {
        "mean": w.mean(),
        **found,
        "effective_size": torch.where(squares == 0, none, total.square() / squares),
        "entropy": torch.special.entr(torch.where(w < 0, torch.nan, p)).sum(),
    }
