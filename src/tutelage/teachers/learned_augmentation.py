"""Augmentation by learned distributions over operations and levels."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tutelage.augment import Actions, Space, space_named
from tutelage.augment.actions import performed_on, require_statistics, with_signs
from tutelage.augment.draws import ExampleRandom
from tutelage.teacher import Teacher
from tutelage.types import Batch, Observation, Params, PreparedBatch, as_prepared

COUNT, OPERATION, LEVEL, KEPT = 1, 2, 3, 4
"""streams of draws: how many, which, how strong, and whether"""
KEPT_ROWS = 64
"""moments of its past that a teacher remembers at most"""


class Policy(NamedTuple):
    """The learned distributions."""

    how_many: Float[np.ndarray, "R"]
    """probability of 1..R operations"""
    keep: Float[np.ndarray, "A"]
    """of an operation that was drawn to be done"""
    strength: Float[np.ndarray, "A K"]
    """of every level, where it is done"""


class LearnedAugmentation(Teacher):
    """Augments every image by operations drawn from learned distributions: OLA.

    Parameters are the logits ``l_r`` [R], ``l_d`` [A] and ``l_a`` [A, K], all zero at first.
    For each image::

        r ~ softmax(l_r) in 1..R;  r different operations a, drawn uniformly;  for each
        d ~ Bernoulli(sigmoid(l_d[a])), and where d = 1:  k ~ softmax(l_a[a]), and a is done
        log p = log p(r) + sum over the r operations of [log p(d) + d log p(k)]

    It learns by a reward for what it drew, ``GradientAlignment(evaluate_on="plain")`` with
    ``teacher_every=2``: steps with it and plain steps alternate, and a plain step's gradient
    gives the reward of the one before it. Which operations are drawn has no parameters. What
    an image gets depends on the step's seed and on its id alone.

    It remembers its own past, up to 64 moments of it, further apart as training goes on.

    Source: Müller et al. 2021, In-Loop Meta-Learning with Gradient-Alignment Reward, section 4
    and appendix (online learned augmentation).

    Args:
        space: A name of ``tutelage.augment.SPACES``: ``wide-long`` is the paper's WL,
            ``standard`` its RA.
        most: R.
        mean: Of every channel, in 0..1, if batches are normalised; nothing if they hold images
            in 0..1.
        std: Of every channel, as ``mean``.

    Raises:
        ValueError: If ``most`` is not in 1..A, or ``mean`` and ``std`` do not fit.

    Note: an unknown space is a ``UsageError``, and so are inputs that are not images in 0..1
    once ``mean`` and ``std`` are undone.
    """

    memory = ("past", "taken")

    def __init__(
        self,
        space: str = "wide-long",
        *,
        most: int = 4,
        mean: Sequence[float] = (),
        std: Sequence[float] = (),
    ) -> None:
        super().__init__()
        self.space_name, self.most = space, most
        operations, levels = len(self.space.strengths), self.space.levels
        if not 1 <= most <= operations:
            raise ValueError(f"most must lie in 1..{operations}, got {most}.")
        self.mean: list[float] = []
        self.std: list[float] = []
        self.normalised_by(mean, std)
        self.count = nn.Parameter(torch.zeros(most))
        self.keep = nn.Parameter(torch.zeros(operations))
        self.strength = nn.Parameter(torch.zeros(operations, levels))
        self.past: Tensor
        self.taken: Tensor
        self.register_buffer("past", torch.zeros(KEPT_ROWS, operations, 2))
        self.register_buffer("taken", torch.zeros((), dtype=torch.int64))

    def normalised_by(self, mean: Sequence[float], std: Sequence[float]) -> None:
        """Set the mean and standard deviation that batches are normalised by.

        Args:
            mean: Of every channel, in 0..1; nothing for images in 0..1.
            std: Of every channel.

        Note: raises ``ValueError`` if the two do not fit.
        """
        self.mean, self.std = require_statistics(mean, std)

    @property
    def space(self) -> Space:
        """The operations with their strengths."""
        return space_named(self.space_name)

    @torch.no_grad()
    def policy(self) -> Policy:
        """The present distributions.

        Returns:
            Probabilities, float64.
        """
        count, keep, strength = (
            p.detach().double().cpu() for p in (self.count, self.keep, self.strength)
        )
        return Policy(
            count.softmax(0).numpy(), keep.sigmoid().numpy(), strength.softmax(1).numpy()
        )

    def draw(self, seed: int, ids: Int64[Tensor, "B"]) -> tuple[np.ndarray, Actions]:
        """Draw operations for every image.

        Args:
            seed: With an image's id it decides; equal ids get the same.
            ids: Of the images.

        Returns:
            How many operations each was given, [B] in 1..R; the actions, R of them, ``kept``
            where they are given and done.
        """
        draws, policy = ExampleRandom(seed, ids, len(ids)), self.policy()
        count = 1 + _chosen(draws.uniform(COUNT, 1), policy.how_many[None, None])[:, 0]
        operation = draws.distinct(OPERATION, self.most, len(policy.keep))
        level = _chosen(draws.uniform(LEVEL, self.most), policy.strength[operation])
        kept = draws.uniform(KEPT, self.most) < policy.keep[operation]
        drawn = np.arange(self.most) < count[:, None]
        return count, with_signs(draws, operation, level, kept & drawn)

    def log_probability(
        self, count: Int64[np.ndarray, "B"], actions: Actions
    ) -> Float[Tensor, "B"]:
        """Log-probability of counts, keeps and levels.

        Args:
            count: How many operations each image was given.
            actions: What was drawn.

        Returns:
            ``log p``, differentiable in the parameters.
        """
        device = self.count.device
        r, a, k, d = (
            torch.from_numpy(x).to(device)
            for x in (count, actions.operation, actions.level, actions.kept)
        )
        drawn = torch.arange(self.most, device=device) < r[:, None]
        done = F.logsigmoid(self.keep)[a] + self.strength.log_softmax(1)[a, k]
        each = torch.where(d, done, F.logsigmoid(-self.keep)[a])
        return self.count.log_softmax(0)[r - 1] + (each * drawn).sum(1)

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Augment a batch."""
        count, actions = self.draw(batch.seed, batch.ids)
        changed = performed_on(batch.inputs, self.space, actions, self.mean, self.std)
        log_prob = self.log_probability(count, actions)
        return as_prepared(batch)._replace(inputs=changed, log_prob=log_prob)

    def entropy(self) -> Float[Tensor, ""]:
        """The summed entropy of all distributions."""
        keep = self.keep
        p, q = keep.sigmoid(), (-keep).sigmoid()
        coins = -(p * F.logsigmoid(keep) + q * F.logsigmoid(-keep)).sum()
        return coins + sum(
            -(logits.log_softmax(-1) * logits.softmax(-1)).sum()
            for logits in (self.count, self.strength)
        )

    def remember(self, prepared: PreparedBatch, observation: Observation) -> Params:  # noqa: ARG002 - the interface
        """Record the policy at intervals."""
        step = int(self.taken)
        past, apart = self.past, _apart(step)
        if step % apart == 0:
            if apart > 1 and step == KEPT_ROWS * apart // 2:  # every other one makes room
                past = torch.cat([past[::2], torch.zeros_like(past[::2])])
            past = past.clone()
            past[step // apart] = self._moment()
        return {"past": past, "taken": self.taken + 1}

    def history(self) -> tuple[list[int], Float[Tensor, "T A 2"]]:
        """The policy over time.

        Returns:
            Augmented steps before each moment; at each, every operation's probability to be
            kept and its mean level, in 0..1 of the highest.
        """
        last = int(self.taken) - 1
        if last < 0:
            return [], self.past[:0]
        apart = _apart(last)
        rows = last // apart + 1
        return [row * apart for row in range(rows)], self.past[:rows]

    def _moment(self) -> Tensor:
        levels = torch.linspace(0, 1, self.strength.shape[1]).to(self.strength)
        mean = (self.strength.softmax(1) * levels).sum(1)
        return torch.stack([self.keep.sigmoid(), mean], 1)


def _apart(step: int) -> int:
    # steps between two moments, as of this step: the past never holds more than it can
    apart = 1
    while step // apart >= KEPT_ROWS:
        apart *= 2
    return apart


def _chosen(uniform: np.ndarray, p: np.ndarray) -> Int64[np.ndarray, "B S"]:
    # by the inverse of the distribution function; the last where rounding leaves a gap
    steps = p.cumsum(-1)[..., :-1]
    return (uniform[..., None] >= steps).sum(-1).astype(np.int64)
