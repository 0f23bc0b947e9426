"""How many of some labels are wrong, by the probability of each."""

import numpy as np
from jaxtyping import Bool

LEVEL = 0.9
"""probability that the number of wrong labels lies in the printed interval"""


def between(draws: np.ndarray, rows: Bool[np.ndarray, "N"] | None = None) -> tuple[int, int]:
    """Interval of the number of wrong labels among some, by the draws [N, D] of each."""
    import torch

    from tutelage.crossfit import LabelErrors, wrong_between

    each = torch.from_numpy(np.ascontiguousarray(draws.T))
    only = None if rows is None else torch.from_numpy(np.ascontiguousarray(rows))
    nothing = each.new_zeros(0, 0)
    return wrong_between(LabelErrors(each.mean(0), each, nothing, 1.0), only, level=LEVEL)
