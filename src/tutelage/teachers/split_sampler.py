"""A learned distribution over parts of the training data."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tutelage.errors import require_known
from tutelage.teacher import Teacher
from tutelage.types import Batch, PreparedBatch, as_prepared
from tutelage.validation.shapes import require_known_ids

Policy = Literal["inverted", "softmax"]


class Draw(NamedTuple):
    """The examples of the next batch."""

    part: Tensor
    """[B] int64: the part that each was drawn from, in 0..K-1"""
    place: Tensor
    """[B] int64: its place in that part"""
    row: Tensor
    """[B] int64: its place among all parts laid end to end; the ``ids`` of the batch"""


class SplitSampler(Teacher):
    """Draws a part from a learned distribution, then one of its examples uniformly.

    With logits s over K parts and ``q = softmax(s)``::

        "inverted"   p_i = (1 - q_i) / (K - 1)    only one part can be driven to zero
        "softmax"    p_i = q_i                    only one part can win

    Both are uniform at first. The inverted form is computed as ``log p_i = logsumexp_{j != i}
    s_j - logsumexp s - log(K - 1)``: ``log(1 - q)`` would be infinite in float32 from a gap of
    17 between logits on. Score: ``d log p_i / d s_j = -q_i (delta_ij - q_j) / (1 - q_i)``.

    The parts may be those of one data set or several data sets. Drawing does not differentiate;
    the teacher learns by policy gradient from ``log_prob`` of the prepared batch.

    Source: Müller et al. 2021, In-Loop Meta-Learning with Gradient-Alignment Reward, section 3.

    Args:
        sizes: Number of examples of each part.
        policy: How logits become probabilities.

    Raises:
        ValueError: If a part is empty, there are fewer than two, or the policy is unknown.
    """

    def __init__(self, sizes: Sequence[int], *, policy: Policy = "inverted") -> None:
        super().__init__()
        if len(sizes) < 2 or min(sizes) < 1:
            raise ValueError(f"sizes are {list(sizes)}; give two or more parts, none empty.")
        require_known("Unknown policy", policy, get_args(Policy))
        self.policy = policy
        self.logits = nn.Parameter(torch.zeros(len(sizes)))
        self.sizes: Tensor
        self.register_buffer("sizes", torch.tensor(sizes))

    @property
    def ends(self) -> Int64[Tensor, "K"]:
        """Cumulative sizes of the parts."""
        return self.sizes.cumsum(0)

    def log_probs(self) -> Float[Tensor, "K"]:
        """The log-probability of every part, differentiable in the logits.

        Returns:
            Log-probabilities whose exponentials sum to one.
        """
        s = self.logits
        if self.policy == "softmax":
            return s.log_softmax(0)
        own = torch.eye(len(s), dtype=torch.bool, device=s.device)
        others = s.expand(len(s), -1).masked_fill(own, -torch.inf).logsumexp(1)
        return others - s.logsumexp(0) - math.log(len(s) - 1)

    def entropy(self) -> Float[Tensor, ""]:
        """The entropy of the distribution over parts, differentiable in the logits."""
        found = self.log_probs()
        return -(found.exp() * found).sum()

    @torch.no_grad()
    def draw(self, size: int, *, generator: torch.Generator) -> Draw:
        """Draw the examples of one batch, with replacement."""
        device = generator.device
        p = self.log_probs().exp().to(device)
        part = p.multinomial(size, replacement=True, generator=generator)
        sizes, ends = self.sizes.to(device)[part], self.ends.to(device)[part]
        at = torch.rand(size, dtype=torch.float64, device=device, generator=generator)
        place = torch.minimum(
            (at * sizes).long(), sizes - 1
        )  # at * sizes may round up to sizes
        return Draw(part, place, ends - sizes + place)

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Add the log-probability of each example's part.

        Note: ids of no part are a ``UsageError`` on the CPU.
        """
        known = (batch.ids >= 0) & (batch.ids < self.ends[-1])
        require_known_ids(batch.ids, known, "SplitSampler has no part")
        part = torch.bucketize(batch.ids, self.ends, right=True)
        return as_prepared(batch)._replace(log_prob=self.log_probs()[part])
