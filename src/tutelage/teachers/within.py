"""Sums, maxima and softmax over the rows of each example."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tutelage.precision import wide


def softmax_within(values: Float[Tensor, "L"], group: Int[Tensor, "L"]) -> Float[Tensor, "L"]:
    """``exp(v_i) / sum_j exp(v_j)`` over the rows j of the same group, in float32 or better."""
    values = wide(values)
    exponentials = (values - maximum_within(values, group)[group]).exp()
    return exponentials / sum_within(exponentials, group)[group]


def sum_within(values: Float[Tensor, "L"], group: Int[Tensor, "L"]) -> Float[Tensor, "B"]:
    """Sums over the rows of each group."""
    return values.new_zeros(groups(group)).index_add(0, group, values)


def maximum_within(values: Float[Tensor, "L"], group: Int[Tensor, "L"]) -> Float[Tensor, "B"]:
    """The largest finite value of each group; 0 where it has none."""
    lowest = values.new_full((groups(group),), -torch.inf)
    high = lowest.scatter_reduce(0, group, values, "amax")
    return torch.where(high.isneginf(), torch.zeros_like(high), high)


def groups(group: Int[Tensor, "L"]) -> int:
    """The number of groups."""
    return int(group.max()) + 1 if len(group) else 0


def first_within(group: Int[Tensor, "L"]) -> Int[Tensor, "B"]:
    """The first row of each group."""
    rows = torch.arange(len(group), device=group.device)
    return rows.new_zeros(groups(group)).scatter_reduce(
        0, group, rows, "amin", include_self=False
    )
