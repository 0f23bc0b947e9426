"""Random selection of examples, by probabilities of another teacher."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from tutelage.precision import upcast
from tutelage.teacher import Teacher, implements, taps_of, uses_progress
from tutelage.types import Observation, PreparedBatch

TINY = 1e-6
"""probabilities are kept this far from 0 and 1, so that their logarithms are finite"""


class KeepOrDrop(Teacher):
    """Weight 1 with probability p_i, else 0, with p_i the weight of another teacher.

    The student's loss is the mean over what is kept; a batch of which all is dropped teaches
    nothing. It learns by a reward for what it drew: at each step (``GradientAlignment``,
    ``NextStepLoss``) or for a whole run (``tutelage.training.rewarded``).

    Source: Fan et al. 2018, Learning to Teach (L2T-data), which is
    ``KeepOrDrop(KeepProbability(classes))``.

    Args:
        keeps: A teacher with ``weigh``, whose weights lie between 0 and 1.

    Raises:
        TypeError: If it does not weigh.
    """

    def __init__(self, keeps: nn.Module) -> None:
        super().__init__()
        if not implements(keeps, "weigh"):
            raise TypeError(f"{type(keeps).__name__} has no method 'weigh'.")
        self.keeps = keeps
        self.taps = taps_of(keeps)
        self.uses_progress = uses_progress(keeps)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Draw weights [L] in {0, 1}."""
        p = self._probability(prepared, observation)
        return self._kept(p).to(p.dtype)

    def log_prob(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """The log-probability of what ``weigh`` draws from the same random numbers."""
        p = self._probability(prepared, observation)
        rows = torch.where(self._kept(p), p, 1 - p).log()
        examples = int(prepared.group.max()) + 1 if len(rows) else 0
        return rows.new_zeros(examples).index_add(0, prepared.group, rows)

    def _probability(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        weigh = cast(Callable[..., Tensor], self.keeps.weigh)
        p = weigh(prepared, observation).reshape(len(observation.losses))
        return upcast(p).clamp(TINY, 1 - TINY)  # bfloat16 draws a zero every 256 numbers

    def _kept(self, p: Tensor) -> Tensor:
        return torch.rand_like(p.detach()) < p.detach()
