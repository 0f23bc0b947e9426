"""Replacements of operators whose second derivative is missing or wrong in torch.

``torch._weight_norm`` in its fused form leaves out of its second derivative how the norm
depends on the weight, and has no forward mode. Others raise an error.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import torch
import torch.nn.functional as F
from torch import Tensor

_EMBEDDING_BAG = F.embedding_bag


@contextmanager
def decomposed() -> Iterator[None]:
    """Replace the operators of torch's layers inside."""
    before = [(home, name, getattr(home, name)) for home, name, _ in FORMULAS]
    for home, name, formula in FORMULAS:
        setattr(home, name, formula)
    try:
        yield
    finally:
        for home, name, known in before:
            setattr(home, name, known)


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """``g v / |v|``."""
    return v * (g / torch.norm_except_dim(v, 2, dim))


def hardsigmoid(x: Tensor, inplace: bool = False) -> Tensor:  # noqa: ARG001 - as in torch
    """``relu6(x + 3) / 6``."""
    return F.relu6(x + 3) / 6


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    """Inverse of ``L L^T``; torch's own forward-mode derivative is wrong."""
    one = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    return torch.cholesky_solve(one.expand_as(factor), factor, upper=upper)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """``F.embedding_bag`` by differentiable operators."""
    odd = max_norm is not None or scale_grad_by_freq
    if odd or (offsets is None) != (input.ndim == 2):
        return _EMBEDDING_BAG(
            input,
            weight,
            offsets,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            per_sample_weights,
            include_last_offset,
            padding_idx,
        )
    bag, bags = _bags(input, offsets, include_last_offset)
    indices = input.reshape(-1)
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    if padding_idx is not None:
        kept = indices != padding_idx % len(weight)
        rows, bag = rows[kept], bag[kept]
    return _reduced(rows, bag, bags, mode)


def _bags(
    indices: Tensor, offsets: Tensor | None, include_last_offset: bool
) -> tuple[Tensor, int]:
    # which bag each index belongs to, and how many there are
    if offsets is None:
        bags, size = indices.shape
        return torch.arange(bags, device=indices.device).repeat_interleave(size), bags
    starts = offsets[:-1] if include_last_offset else offsets
    places = torch.arange(len(indices), device=indices.device)
    return torch.searchsorted(starts.to(places), places, right=True) - 1, len(starts)


def _reduced(rows: Tensor, bag: Tensor, bags: int, mode: str) -> Tensor:
    zeros = rows.new_zeros(bags, rows.shape[1])
    if mode == "max":
        places = bag.unsqueeze(1).expand_as(rows)
        return zeros.scatter_reduce(0, places, rows, "amax", include_self=False)
    total = zeros.index_add(0, bag, rows)
    if mode == "sum":
        return total
    return total / torch.bincount(bag, minlength=bags).clamp(min=1).to(rows).unsqueeze(1)


FORMULAS = (
    (torch, "_weight_norm", weight_norm),
    (import_module("torch.nn.utils.weight_norm"), "_weight_norm", weight_norm),
    (torch, "cholesky_inverse", cholesky_inverse),
    (F, "hardsigmoid", hardsigmoid),
    (F, "embedding_bag", embedding_bag),
)
"""where torch's layers look an operator up, under which name, and what is used instead"""
