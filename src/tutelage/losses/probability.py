"""Losses of the label's probability p, in place of cross entropy."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tutelage.precision import upcast
from tutelage.validation.ranges import not_negative


@dataclass(frozen=True)
class Focal:
    """``-(1 - p)^gamma log p``: confident examples count less.

    ``gamma=0`` is cross entropy. For ``gamma`` below 1 the first factor has no finite slope at
    p = 1, so it is held constant within rounding of there.

    Source: Lin et al. 2017, Focal Loss for Dense Object Detection, equation 4; of 0.5, 1 and 2
    Fan et al. 2021 take what does best on held-out examples.

    Raises:
        UsageError: If ``gamma`` is negative or not finite.
    """

    gamma: float

    def __post_init__(self) -> None:
        not_negative(self, "gamma")

    def __call__(self, logits: Float[Tensor, "B C"], targets: Tensor) -> Float[Tensor, "B"]:
        """One loss per example, nats."""
        log_p = _log_probabilities(logits, targets)
        missing = (-log_p.expm1()).clamp(min=torch.finfo(log_p.dtype).eps)
        return _mixed(-(missing**self.gamma) * log_p, targets)


@dataclass(frozen=True)
class GeneralisedCrossEntropy:
    """``(1 - p^q) / q``: between cross entropy (q to 0) and ``1 - p`` (q = 1).

    No example's loss exceeds ``1 / q``, so that a wrong label pulls less for large q.

    Source: Zhang and Sabuncu 2018, Generalized Cross Entropy Loss for Training Deep Neural
    Networks with Noisy Labels, equation 6; q = 0.7 throughout, here without the truncation of
    section 3.3.

    Raises:
        ValueError: If ``q`` is not in (0, 1].
    """

    q: float = 0.7

    def __post_init__(self) -> None:
        if not 0 < self.q <= 1:
            raise ValueError(f"q must lie in (0, 1], got {self.q}.")

    def __call__(self, logits: Float[Tensor, "B C"], targets: Tensor) -> Float[Tensor, "B"]:
        """One loss per example."""
        log_p = _log_probabilities(logits, targets)
        return _mixed(-(self.q * log_p).expm1() / self.q, targets)


def _log_probabilities(logits: Tensor, targets: Tensor) -> Tensor:
    # [B, 1] of the label; [B, C] where labels are soft
    log_p = upcast(logits).log_softmax(1)
    return log_p if targets.ndim == 2 else log_p.gather(1, targets.unsqueeze(1))


def _mixed(by_class: Tensor, targets: Tensor) -> Tensor:
    return by_class.squeeze(1) if targets.ndim == 1 else (targets * by_class).sum(1)
