"""From weighted losses to one number, row by row and by formula; and what goes with it."""

from typing import Any

import torch
from torch import Tensor, nn

from tutelage.losses.objectives import Normalise
from tutelage.types import Observation, PreparedBatch


def reduced(
    losses: Tensor, weights: Tensor, prepared: PreparedBatch, marks: Tensor, rule: Normalise
) -> Tensor:
    """What the student descends; rows whose mark is 0 count nowhere."""
    losses = losses.to(torch.promote_types(losses.dtype, torch.float32))
    weights = weights.to(losses.dtype)
    if rule is None:
        return (weights * losses).sum() / max(float(marks.sum()), 1.0)
    if rule == "mean":
        return _over((weights * losses).sum(), weights.sum())
    means = []
    for example in prepared.group.unique():
        own = (prepared.group == example) & marks.bool()
        if own.any():
            means.append(_over((weights * losses)[own].sum(), weights[own].sum()))
    return torch.stack(means).mean() if means else losses.sum() * 0


def _over(total: Tensor, weight: Tensor) -> Tensor:
    return total / weight if float(weight.detach()) != 0 else total * 0


def cut(seen: Observation) -> Observation:
    """An observation without its graph."""
    features = {k: f.detach() for k, f in seen.features.items()}
    return seen._replace(
        losses=seen.losses.detach(), logits=seen.logits.detach(), features=features
    )


def cast_to(rows: Any, dtype: torch.dtype) -> Any:
    """A record, its floating-point tensors in one type."""
    return type(rows)(
        *(x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x for x in rows)
    )


def rows_of(prepared: PreparedBatch, rows: Tensor) -> PreparedBatch:
    """Some of a prepared batch's rows."""
    inputs, targets, ids, group = (x[rows] for x in prepared[:4])
    return prepared._replace(inputs=inputs, targets=targets, ids=ids, group=group)


def seen_of(seen: Observation, rows: Tensor) -> Observation:
    """What was seen of some of the rows."""
    features = {k: f[rows] for k, f in seen.features.items()}
    return seen._replace(losses=seen.losses[rows], logits=seen.logits[rows], features=features)


def placed(numbers: Tensor, rows: Tensor, count: int) -> Tensor:
    """Numbers of some rows among zeros."""
    return numbers.new_zeros(count).index_put((rows,), numbers)


def renew(module: nn.Module, buffers: dict[str, Tensor]) -> None:
    """Give a module's buffers other values."""
    for name, buffer in module.named_buffers():
        buffer.copy_(buffers[name])
