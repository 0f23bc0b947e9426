"""Support sets some of whose labels are wrong, or some of whose images are shuffled."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int64, UInt8
from torch import Tensor

from tutelage.errors import UsageError, nearest

KINDS = ("none", "labels", "images")


class Spoilt(NamedTuple):
    """S support examples after spoiling."""

    images: UInt8[Tensor, "S channels H W"]
    targets: Int64[Tensor, "S"]
    chosen: Bool[Tensor, "S"]
    """which were spoilt"""


@dataclass(frozen=True)
class Spoiling:
    """What is done to which share of a support set."""

    kind: str
    """``labels``: another class of the task, drawn uniformly; ``images``: the pixels in random
    order; ``none``"""
    rate: float
    """probability that an example is spoilt, in 0..1; 0 for ``none``"""

    def __post_init__(self) -> None:
        """Check both fields."""
        if self.kind not in KINDS:
            raise UsageError(f"unknown spoiling '{self.kind}'. {nearest(self.kind, KINDS)}")
        highest, allowed = (0, "0") if self.kind == "none" else (1, "0..1")
        if not 0 <= self.rate <= highest:
            raise UsageError(
                f"the rate of spoiling '{self.kind}' is {self.rate:g}; allowed: {allowed}."
            )

    def __call__(
        self,
        images: UInt8[Tensor, "S channels H W"],
        targets: Int64[Tensor, "S"],
        ways: int,
        *,
        seed: int,
    ) -> Spoilt:
        """The support set with some examples spoilt, independently of one another."""
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.rand(len(targets), generator=generator) < self.rate
        if self.kind == "labels":
            moves = torch.randint(1, ways, (len(targets),), generator=generator)
            targets = torch.where(chosen, (targets + moves) % ways, targets)
        elif self.kind == "images":
            images = images.clone()
            for row in chosen.nonzero().flatten().tolist():
                images[row] = _shuffled(images[row], generator)
        return Spoilt(images, targets, chosen)


UNSPOILT = Spoiling("none", 0.0)


def _shuffled(image: Tensor, generator: torch.Generator) -> Tensor:
    # A pixel keeps its colour.
    pixels = image.flatten(1)
    order = torch.randperm(pixels.shape[1], generator=generator)
    return pixels[:, order].view_as(image)
