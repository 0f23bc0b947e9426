"""Gradients and arithmetic of named tensors."""

from typing import Any, TypeVar

import torch
from torch import Tensor

from tutelage.functional.derivatives import second_derivatives
from tutelage.functional.recomputation import no_other_recomputation
from tutelage.precision import upcast
from tutelage.types import Batch, Observation, Params, PreparedBatch

AnyRecord = TypeVar("AnyRecord", bound=Batch | PreparedBatch | Observation)


def named_grad(scalar: Tensor, params: Params, *, create_graph: bool = False) -> Params:
    """Gradient of a scalar, keyed like ``params``."""
    reached = reached_grad(scalar, params, create_graph=create_graph)
    return {k: reached[k] if k in reached else torch.zeros_like(p) for k, p in params.items()}


def reached_grad(
    scalar: Tensor, params: Params, *, create_graph: bool = False, retain_graph: bool = False
) -> Params:
    """Gradient of a scalar with respect to those ``params`` that it depends on."""
    if not params or not scalar.requires_grad:
        return {}
    with no_other_recomputation(), second_derivatives():
        grads = torch.autograd.grad(
            scalar,
            list(params.values()),
            retain_graph=retain_graph or create_graph,
            create_graph=create_graph,
            allow_unused=True,
        )
    return {k: g for k, g in zip(params, grads, strict=True) if g is not None}


def grads_of_both(
    scalar: Tensor, student_params: Params, teacher_params: Params
) -> tuple[Params, Params]:
    """Gradients in two sets of parameters, whose names may coincide."""
    named = {f"teacher/{k}": p for k, p in teacher_params.items()}
    grads = named_grad(scalar, named | student_params)
    return {k: grads[k] for k in student_params}, {
        k: grads[f"teacher/{k}"] for k in teacher_params
    }


def inner(a: Params, b: Params) -> Tensor:
    """Inner product over the names that ``a`` holds, summed in float32 or better."""
    return torch.stack([(upcast(a[k]) * upcast(b[k])).sum() for k in a]).sum()


def dtypes_in(record: Batch | PreparedBatch | Observation) -> set[torch.dtype]:
    """The floating-point dtypes of a record."""
    return {x.dtype for _, x in _numbers(record)}


def in_dtype(record: AnyRecord, kind: torch.dtype) -> AnyRecord:
    """A record with its floating-point tensors in another dtype."""
    own: dict[str, Any] = {}
    own |= {name: x.to(kind) for name, x in _numbers(record) if name in record._fields}
    if isinstance(record, Observation):
        own["features"] = {
            k: x.to(kind) if x.is_floating_point() else x for k, x in record.features.items()
        }
    return record._replace(**own)


def _numbers(record: Batch | PreparedBatch | Observation) -> list[tuple[str, Tensor]]:
    named = list(zip(record._fields, record, strict=True))
    if isinstance(record, Observation):
        named += record.features.items()
    return [(k, x) for k, x in named if isinstance(x, Tensor) and x.is_floating_point()]


def is_finite(params: Params) -> bool:
    """Whether all values are finite; synchronises with the device once."""
    return bool(torch.stack([tensor.isfinite().all() for tensor in params.values()]).all())


def plus(a: Params, b: Params, scale: float | Tensor = 1.0) -> Params:
    """``a + scale * b``, where a name missing in ``b`` counts as zero."""
    return {k: v + scale * b[k] if k in b else v for k, v in a.items()}


def leaves(params: Params) -> Params:
    """Detached tensors that require grad."""
    return {k: v.detach().requires_grad_() for k, v in params.items()}


def detached(params: Params) -> Params:
    """Detached tensors."""
    return {k: v.detach() for k, v in params.items()}


def cloned(params: Params) -> Params:
    """Detached clones."""
    return {k: v.detach().clone() for k, v in params.items()}


def moved_to(device: torch.device, params: Params) -> Params:
    """The tensors on a device."""
    return {k: v.to(device) for k, v in params.items()}
