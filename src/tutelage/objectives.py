"""From logits to one loss per example, and from weighted losses to one number."""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

Normalise = Literal["mean", "group"] | None


def cross_entropy(logits: Float[Tensor, "B C"], targets: Tensor) -> Float[Tensor, "B"]:
    """Cross entropy of every example, in nats.

    Args:
        logits: Unnormalised log-probabilities.
        targets: Class ids [B], or soft labels [B, C].

    Returns:
        One loss per example.
    """
    return F.cross_entropy(logits, targets, reduction="none")


def weighted_loss(
    losses: Float[Tensor, "L"],
    weights: Tensor,
    group: Int[Tensor, "L"],
    normalise: Normalise,
) -> Float[Tensor, ""]:
    """Reduce per-example losses to the number that the student descends.

    The one rule for weights, in loss, log and hypergradient alike. It is linear in ``losses``:

    * ``"mean"``: ``sum_i w_i l_i / sum_i w_i`` (weights rescaled to mean 1 over the batch);
    * ``"group"``: the same within the copies of each example, then the mean over examples;
    * ``None``: ``mean_i w_i l_i``.

    A batch (or group) whose weights are all zero gives 0 and zero gradients, never NaN. Sums
    are taken in float32 or better.

    Args:
        losses: One loss per row of the lesson.
        weights: Non-negative, [L] or [L, 1].
        group: The example that each row came from, 0..B-1.
        normalise: The rule.

    Returns:
        A scalar.

    Raises:
        ValueError: If ``weights`` has another shape, which would broadcast.
    """
    if weights.shape not in (losses.shape, (*losses.shape, 1)):
        raise ValueError(
            f"weights have shape {tuple(weights.shape)} but losses {tuple(losses.shape)}: "
            "return one weight per row of the lesson."
        )
    losses = losses.to(torch.promote_types(losses.dtype, torch.float32))
    weights = weights.reshape(losses.shape).to(losses.dtype)
    if normalise is None:
        return (weights * losses).sum() / max(len(losses), 1)
    if normalise == "mean":
        return (weights * losses).sum() / nonzero(weights.sum())
    examples = int(group.max()) + 1 if len(group) else 0
    empty = losses.new_zeros(examples)
    totals = nonzero(empty.index_add(0, group, weights))
    return (empty.index_add(0, group, weights * losses) / totals).sum() / max(examples, 1)


def nonzero(total: Tensor) -> Tensor:
    """Make a divisor safe: where it is zero, divide by one instead.

    Args:
        total: Sums of non-negative weights, any shape.

    Returns:
        ``total`` with every zero replaced by a constant one.
    """
    return torch.where(total == 0, torch.ones_like(total), total)
