"""Learned sampling distributions and their history: plain records."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Augmentation:
    """A learned augmentation policy at the end of training, for every seed of an arm."""

    arm: str
    operations: tuple[str, ...]
    keep: Float[np.ndarray, "S A"]
    """Probability that an operation that was drawn is applied; 0.5 initially."""
    level: Float[np.ndarray, "S A"]
    """Expected level where it is applied; NaN for an operation without levels."""
    highest: int
    """Levels are 0 to this."""
    how_many: Float[np.ndarray, "S R"]
    """Probability of 1..R operations."""
    steps: tuple[int, ...]
    """Augmented steps before each stored point of the history, first seed."""
    past: Float[np.ndarray, "T A 2"]
    """Probability to be kept and expected level at each point of the history, first seed."""

    def __post_init__(self) -> None:
        shapes = (self.keep.shape[1], self.level.shape[1], self.past.shape[1])
        if set(shapes) != {len(self.operations)}:
            raise ValueError(
                f"augmentation of {self.arm!r}: arrays of {shapes} operations, expected "
                f"{len(self.operations)}."
            )


@dataclass(frozen=True, eq=False)
class Splits:
    """Sampling probability of each part of the data over a run, for every seed.

    A row of ``probabilities`` is ``SplitSampler.log_probs().exp()`` at that step.
    """

    arm: str
    parts: tuple[str, ...]
    """Names of the parts, K."""
    steps: tuple[int, ...]
    """Student steps before each stored point, T."""
    probabilities: Float[np.ndarray, "S T K"]

    def __post_init__(self) -> None:
        expected = (len(self.steps), len(self.parts))
        if self.probabilities.shape[1:] != expected or not self.probabilities.size:
            raise ValueError(
                f"splits of {self.arm!r}: probabilities {list(self.probabilities.shape)}, "
                f"expected [seeds, {expected[0]} steps, {expected[1]} parts], none empty."
            )
