"""The weighted mean of losses, and which rows count in it."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.validation.shapes import TORCH_IGNORES, described, named

Normalise = Literal["mean", "group"] | None


def weighted_loss(
    losses: Float[Tensor, "L"],
    weights: Tensor,
    group: Int[Tensor, "L"],
    normalise: Normalise,
    total: Callable[[Tensor], Tensor] = lambda x: x,
    counts: Tensor | None = None,
) -> Float[Tensor, ""]:
    """Reduce weighted losses to the scalar that the student minimises.

    The one rule for weights, in loss, log and hypergradient alike. It is linear in ``losses``:

    * ``"mean"``: ``sum_i w_i l_i / sum_i w_i`` (weights rescaled to mean 1 over the batch);
    * ``"group"``: the same within the copies of each example, then the mean over examples;
    * ``None``: ``mean_i w_i l_i``.

    A batch (or group) whose weights are all zero gives 0 and zero gradients, never NaN. Sums
    are taken in float32 or better. With ``counts`` c, ``c_i w_i`` replaces ``w_i``, and a
    mean over rows or examples is weighted by theirs: those of 0 are not in it.

    Args:
        losses: One loss per row of the prepared batch.
        weights: Non-negative, [L] or [L, 1].
        group: The example that each row came from, 0..B-1.
        normalise: The rule.
        total: The sum of a number over all processes, where several have rows of one batch.
        counts: How many labels each row has [L]; None: 1 each.

    Returns:
        A scalar: this process's share, the shares of all adding up to the loss of all rows.

    Raises:
        ValueError: If ``weights`` has another shape, which would broadcast.
    """
    if weights.shape not in (losses.shape, (*losses.shape, 1)):
        raise ValueError(
            f"weights have shape {tuple(weights.shape)} but losses {tuple(losses.shape)}: "
            "return one weight per row of the prepared batch."
        )
    losses = losses.to(torch.promote_types(losses.dtype, torch.float32))
    weights = weights.reshape(losses.shape).to(losses.dtype)
    rows = losses.new_full((), len(losses))
    if counts is not None:
        counts = counts.to(losses.dtype)
        weights, rows = weights * counts, counts.sum()
    if normalise is None:
        return (weights * losses).sum() / nonzero(total(rows))
    if normalise == "mean":
        return (weights * losses).sum() / nonzero(total(weights.sum()))
    examples = int(group.max()) + 1 if len(group) else 0
    empty = losses.new_zeros(examples)
    totals = nonzero(empty.index_add(0, group, weights))
    means = empty.index_add(0, group, weights * losses) / totals
    if counts is None:
        return means.sum() / nonzero(total(losses.new_full((), examples)))
    each = empty.scatter_reduce(0, group, counts, "amax")
    return (each * means).sum() / nonzero(total(each.sum()))


def nonzero(total: Tensor) -> Tensor:
    """Replace zero divisors by one."""
    return torch.where(total == 0, torch.ones_like(total), total)


def counts_of(objective: Callable[..., Tensor], targets: Tensor) -> Tensor | None:
    """How many labels each row has, 0 for none; None where all rows have one."""
    own = getattr(objective, "counts", None)
    if own is not None:
        found = own(targets)
        if found is not None and found.shape != targets.shape[:1]:
            raise UsageError(
                f"The counts of {named(objective)} are {described(found)} for targets of shape "
                f"{tuple(targets.shape)}; allowed: one number for each row."
            )
        return found
    ignored = _ignore_index(objective)
    if ignored is None or targets.is_floating_point():
        return None
    return (targets != ignored).reshape(len(targets), -1).any(1)


def _ignore_index(objective: Callable[..., Tensor]) -> int | None:
    # that of torch's losses, as a module or a function; None where it has none
    if isinstance(objective, partial):
        known = objective.func in (F.cross_entropy, F.nll_loss)
        default = TORCH_IGNORES if known else _ignore_index(objective.func)
        return objective.keywords.get("ignore_index", default)
    return getattr(objective, "ignore_index", None)


def held_out_counts(
    objective: Callable[..., Tensor], metric: Callable[..., Tensor] | None, targets: Tensor
) -> Tensor | None:
    """How many labels each held-out row has for the metric, 0 for none."""
    own = counts_of(objective, targets)
    found = own if metric is None else counts_of(metric, targets)
    if metric is None or own is None:
        return found
    return own > 0 if found is None else found * (own > 0)


def counted_mean(
    values: Float[Tensor, "L"], counts: Tensor | None, total: Callable[[Tensor], Tensor]
) -> Float[Tensor, ""]:
    """``sum_i c_i x_i / sum_i c_i``; 0 where nothing counts."""
    rows = values.new_full((), len(values))
    if counts is not None:
        counts = counts.to(values.dtype)
        values, rows = values * counts, counts.sum()
    return values.sum() / nonzero(total(rows))
