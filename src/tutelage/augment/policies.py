"""Fixed augmentation policies, drawn for every image of a batch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped
from torch import Tensor

from tutelage.augment.actions import Actions, performed, with_signs
from tutelage.augment.draws import ExampleRandom, random_seed
from tutelage.augment.published import POLICIES
from tutelage.augment.spaces import Space, space_named
from tutelage.errors import UsageError, require_known

OPERATION, LEVEL, KEPT = 1, 2, 3
"""streams of draws: which operation, how strong, and whether"""


class Policy(ABC):
    """Draws the operations for every image."""

    @property
    @abstractmethod
    def space(self) -> Space:
        """The operations with their strengths."""

    @abstractmethod
    def draw(self, draws: ExampleRandom) -> Actions:
        """Draw operations, levels and signs."""

    def __call__(
        self,
        images: Shaped[Tensor, "B ch H W"],
        *,
        seed: int | None = None,
        ids: Shaped[Tensor, "B"] | None = None,
    ) -> Shaped[Tensor, "B ch H W"]:
        """Augment a batch, each image by its own draw.

        Note: raises ``UsageError`` for other images.
        """
        draws = ExampleRandom(random_seed() if seed is None else seed, ids, len(images))
        return performed(images, self.space, self.draw(draws))


@dataclass(frozen=True)
class RandAugment(Policy):
    """A few operations drawn uniformly, all at one level.

    Source: Cubuk et al. 2020, RandAugment; defaults and space as in torchvision.

    Raises:
        UsageError: If ``count`` is negative, or there is no such level or space.
    """

    count: int = 2
    """operations for each image, which may be the same"""
    level: int = 9
    """0..30"""
    space_name: str = "rand-augment"

    def __post_init__(self) -> None:
        if self.count < 0:
            raise UsageError(f"count must be 0 or above, got {self.count}.")
        if not 0 <= self.level < self.space.levels:
            raise UsageError(f"level {self.level}; allowed: 0..{self.space.levels - 1}.")

    @property
    def space(self) -> Space:
        """The operations with their strengths."""
        return space_named(self.space_name)

    def draw(self, draws: ExampleRandom) -> Actions:
        """Draw operations, levels and signs."""
        operation = draws.whole(OPERATION, self.count, len(self.space.strengths))
        level, kept = np.full_like(operation, self.level), np.ones(operation.shape, np.bool_)
        return with_signs(draws, operation, level, kept)


@dataclass(frozen=True)
class TrivialAugment(Policy):
    """One operation at one level, both drawn uniformly.

    Source: Müller and Hutter 2021, TrivialAugment; the space as in torchvision.

    Raises:
        UsageError: If there is no such space.
    """

    space_name: str = "trivial-wide"

    def __post_init__(self) -> None:
        _ = self.space

    @property
    def space(self) -> Space:
        """The operations with their strengths."""
        return space_named(self.space_name)

    def draw(self, draws: ExampleRandom) -> Actions:
        """Draw operations, levels and signs."""
        operation = draws.whole(OPERATION, 1, len(self.space.strengths))
        level = draws.whole(LEVEL, 1, self.space.levels)
        return with_signs(draws, operation, level, np.ones_like(operation, np.bool_))


@dataclass(frozen=True)
class UniformAugment(Policy):
    """Different operations, each done with probability 1/2 at a level drawn uniformly.

    Source: LingChen et al. 2020, UniformAugment, as Müller et al. 2021 ran it.

    Raises:
        UsageError: If there is no such space, or it has fewer operations than ``count``.
    """

    count: int = 2
    """operations for each image, no two alike"""
    space_name: str = "wide-long"

    def __post_init__(self) -> None:
        if not 0 <= self.count <= len(self.space.strengths):
            raise UsageError(
                f"count {self.count}; allowed: 0..{len(self.space.strengths)}, the operations "
                f"of the space {self.space_name}."
            )

    @property
    def space(self) -> Space:
        """The operations with their strengths."""
        return space_named(self.space_name)

    def draw(self, draws: ExampleRandom) -> Actions:
        """Draw operations, levels and signs."""
        operation = draws.distinct(OPERATION, self.count, len(self.space.strengths))
        level = draws.whole(LEVEL, self.count, self.space.levels)
        return with_signs(draws, operation, level, draws.uniform(KEPT, self.count) < 0.5)


@dataclass(frozen=True)
class AutoAugment(Policy):
    """One of 25 pairs of operations, each done with a probability and at a level of its own.

    Source: Cubuk et al. 2019, AutoAugment, as in torchvision.

    Raises:
        UsageError: If there is no such policy.
    """

    policy: str = "cifar10"
    """``cifar10``, ``imagenet`` or ``svhn``: the data that it was found on"""

    def __post_init__(self) -> None:
        require_known("unknown policy", self.policy, POLICIES)

    @property
    def space(self) -> Space:
        """The operations with their strengths."""
        return space_named("auto-augment")

    def draw(self, draws: ExampleRandom) -> Actions:
        """Draw operations, levels and signs."""
        names = self.space.operations
        pairs = POLICIES[self.policy]
        operation = np.array([[names.index(name) for name, _, _ in pair] for pair in pairs])
        level = np.array([[at for _, _, at in pair] for pair in pairs])
        share = np.array([[p for _, p, _ in pair] for pair in pairs])
        chosen = draws.whole(OPERATION, 1, len(pairs))[:, 0]
        kept = draws.uniform(KEPT, 2) < share[chosen]
        return with_signs(draws, operation[chosen], level[chosen], kept)
