"""What a teacher that is a distribution came to, and on what way: plain records."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Augmentation:
    """What a learned augmentation came to in every seed of an arm, or in the one there is."""

    arm: str
    operations: tuple[str, ...]
    keep: Float[np.ndarray, "S A"]
    """Probability that an operation, once drawn, is done; 0.5 at first."""
    level: Float[np.ndarray, "S A"]
    """Expected level, where it is done; NaN for an operation whose levels do not differ."""
    highest: int
    """Levels are 0 to this."""
    how_many: Float[np.ndarray, "S R"]
    """Probability of 1..R operations."""
    steps: tuple[int, ...]
    """Augmented steps before each remembered moment of the first seed."""
    past: Float[np.ndarray, "T A 2"]
    """At each moment the probability to be kept and the expected level, of the first seed."""

    def __post_init__(self) -> None:
        shapes = (self.keep.shape[1], self.level.shape[1], self.past.shape[1])
        if set(shapes) != {len(self.operations)}:
            raise ValueError(
                f"augmentation of {self.arm!r}: arrays of {shapes} operations, expected "
                f"{len(self.operations)}."
            )


@dataclass(frozen=True, eq=False)
class Splits:
    """How likely batches were drawn from each part of the data over a run, seed by seed.

    A row of ``probabilities`` is ``SplitSampler.log_probs().exp()`` at that step.
    """

    arm: str
    parts: tuple[str, ...]
    """Names of the parts, K."""
    steps: tuple[int, ...]
    """Student steps before each remembered moment, T."""
    probabilities: Float[np.ndarray, "S T K"]

    def __post_init__(self) -> None:
        expected = (len(self.steps), len(self.parts))
        if self.probabilities.shape[1:] != expected or not self.probabilities.size:
            raise ValueError(
                f"splits of {self.arm!r}: probabilities {list(self.probabilities.shape)}, "
                f"expected [seeds, {expected[0]} steps, {expected[1]} parts], none empty."
            )
