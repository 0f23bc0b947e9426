"""Arithmetic on batches, and on nested outputs of modules."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tutelage.precision import upcast


def sum_over(values: Tensor, dims: Sequence[int]) -> Tensor:
    """Sum over dimensions, in float32 or better."""
    kind = torch.promote_types(values.dtype, torch.float32)
    if dims:
        return values.sum(tuple(dims), dtype=kind)
    return values.to(kind, copy=True)


def row_dots(kept: Tensor, fresh: Tensor, row_dim: int) -> Tensor:
    """Inner product of each row, in float32 or better."""
    others = [d for d in range(kept.ndim) if d != row_dim % kept.ndim]
    return sum_over(upcast(fresh).mul_(kept), others)


def gradient_dot(gradient: Tensor, direction: Tensor) -> Tensor:
    """Inner product of a dense or sparse gradient with a dense tensor."""
    if gradient.is_sparse:
        found = direction[tuple(gradient._indices())]
        return (upcast(gradient._values()) * upcast(found)).sum()
    return (upcast(gradient) * upcast(direction)).sum()


def tensors_in(value: object) -> list[Tensor]:
    """The distinct floating-point tensors of a nested output, in order."""
    found = {id(t): t for t in all_tensors(value) if t.is_floating_point()}
    return list(found.values())


def all_tensors(value: object) -> list[Tensor]:
    """All tensors of a nested structure, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        parts: Sequence[object] = list(value.values())
    elif isinstance(value, (tuple, list)):
        parts = value
    elif is_dataclass(value):
        parts = [getattr(value, field.name) for field in fields(value)]
    else:
        return []
    return [t for part in parts for t in all_tensors(part)]


def map_tensors(value: object, change: Callable[[Tensor], Tensor]) -> object:
    """Map every tensor of a nested structure."""
    if isinstance(value, Tensor):
        return change(value)
    if type(value) is dict:
        return {k: map_tensors(v, change) for k, v in value.items()}
    if isinstance(value, tuple):
        parts = [map_tensors(part, change) for part in value]
        kind: Any = type(value)
        return kind(*parts) if hasattr(kind, "_fields") else tuple(parts)
    if type(value) is list:
        return [map_tensors(part, change) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        held = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
        return replace(
            value, **{name: map_tensors(part, change) for name, part in held.items()}
        )
    return value


def separate_views(value: object) -> object:
    """Views of the outputs, none of which is computed from another."""
    views: dict[int, Tensor] = {}

    def view(tensor: Tensor) -> Tensor:
        if not tensor.requires_grad:
            return tensor
        return views.setdefault(id(tensor), tensor.view_as(tensor))

    return map_tensors(value, view)
