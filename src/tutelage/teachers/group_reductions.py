"""Sums, maxima and softmax over the rows of each example."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tutelage.precision import upcast


def group_softmax(values: Float[Tensor, "L"], group: Int[Tensor, "L"]) -> Float[Tensor, "L"]:
    """``exp(v_i) / sum_j exp(v_j)`` over the rows j of the same group, in float32 or better."""
    values = upcast(values)
    exponentials = (values - group_max(values, group)[group]).exp()
    return exponentials / group_sum(exponentials, group)[group]


def group_sum(values: Float[Tensor, "L"], group: Int[Tensor, "L"]) -> Float[Tensor, "B"]:
    """Sums over the rows of each group."""
    return values.new_zeros(group_count(group)).index_add(0, group, values)


def group_max(values: Float[Tensor, "L"], group: Int[Tensor, "L"]) -> Float[Tensor, "B"]:
    """The largest finite value of each group; 0 where it has none."""
    lowest = values.new_full((group_count(group),), -torch.inf)
    high = lowest.scatter_reduce(0, group, values, "amax")
    return torch.where(high.isneginf(), torch.zeros_like(high), high)


def group_count(group: Int[Tensor, "L"]) -> int:
    """The number of groups."""
    return int(group.max()) + 1 if len(group) else 0


def group_first(group: Int[Tensor, "L"]) -> Int[Tensor, "B"]:
    """The first row of each group."""
    rows = torch.arange(len(group), device=group.device)
    return rows.new_zeros(group_count(group)).scatter_reduce(
        0, group, rows, "amin", include_self=False
    )
