"""Arithmetic on named tensors."""

from typing import Any, TypeVar

import torch
from torch import Tensor

from tutelage.functional.derivatives import second_derivatives
from tutelage.functional.recomputation import no_other_recomputation
from tutelage.precision import wide
from tutelage.types import Batch, Lesson, Observation, Params

Record = TypeVar("Record", bound=Batch | Lesson | Observation)


def named_grad(
    scalar: Tensor, params: Params, *, create_graph: bool = False, retain_graph: bool = False
) -> Params:
    """Gradient of a scalar, keyed like ``params``.

    Args:
        scalar: What to differentiate.
        params: Tensors to differentiate with respect to.
        create_graph: Keep the graph, so that the gradient can be differentiated again.
        retain_graph: Keep the graph of ``scalar`` for another gradient.

    Returns:
        One gradient per key of ``params``; zeros where ``scalar`` does not depend on it.
    """
    reached = reached_grad(scalar, params, create_graph=create_graph, retain_graph=retain_graph)
    return {k: reached[k] if k in reached else torch.zeros_like(p) for k, p in params.items()}


def reached_grad(
    scalar: Tensor, params: Params, *, create_graph: bool = False, retain_graph: bool = False
) -> Params:
    """Gradient of a scalar with respect to those ``params`` that it depends on.

    Args:
        scalar: What to differentiate.
        params: Tensors to differentiate with respect to.
        create_graph: Keep the graph, so that the gradient can be differentiated again.
        retain_graph: Keep the graph of ``scalar`` for another gradient.

    Returns:
        One gradient per parameter reached; the others are absent, as an optimiser skips them.
    """
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


def grads_of_both(scalar: Tensor, student: Params, teacher: Params) -> tuple[Params, Params]:
    """Gradients of a scalar in two sets of parameters, whose names may be the same.

    Args:
        scalar: What to differentiate.
        student: Student parameters.
        teacher: Teacher parameters.

    Returns:
        Both, keyed like the parameters; zeros where ``scalar`` does not depend on one.
    """
    named = {f"teacher/{k}": p for k, p in teacher.items()}
    grads = named_grad(scalar, named | student)
    return {k: grads[k] for k in student}, {k: grads[f"teacher/{k}"] for k in teacher}


def inner(a: Params, b: Params) -> Tensor:
    """Inner product over the names that ``a`` holds, summed in float32 or better.

    Args:
        a: Named tensors, not empty.
        b: Tensors of the same shapes, under at least the names of ``a``.

    Returns:
        A scalar.
    """
    return torch.stack([(wide(a[k]) * wide(b[k])).sum() for k in a]).sum()


def kinds_in(record: Batch | Lesson | Observation) -> set[torch.dtype]:
    """The types of the floating-point numbers in a record.

    Args:
        record: What travels between teacher and student.

    Returns:
        Often one; none where it holds tokens and class ids.
    """
    return {x.dtype for _, x in _numbers(record)}


def in_kind(record: Record, kind: torch.dtype) -> Record:
    """A record with its floating-point numbers in another type.

    Args:
        record: What travels between teacher and student.
        kind: That type.

    Returns:
        The same numbers, differentiable; whole numbers stay as they are.
    """
    own: dict[str, Any] = {}
    own |= {name: x.to(kind) for name, x in _numbers(record) if name in record._fields}
    if isinstance(record, Observation):
        own["features"] = {
            k: x.to(kind) if x.is_floating_point() else x for k, x in record.features.items()
        }
    return record._replace(**own)


def _numbers(record: Batch | Lesson | Observation) -> list[tuple[str, Tensor]]:
    named = list(zip(record._fields, record, strict=True))
    if isinstance(record, Observation):
        named += record.features.items()
    return [(k, x) for k, x in named if isinstance(x, Tensor) and x.is_floating_point()]


def is_finite(params: Params) -> bool:
    """Whether no number is infinite or not a number; waits for the device once.

    Args:
        params: Named tensors, not empty.

    Returns:
        Whether that is so.
    """
    return bool(torch.stack([tensor.isfinite().all() for tensor in params.values()]).all())


def plus(a: Params, b: Params, scale: float = 1.0) -> Params:
    """``a + scale * b``, where a name missing in ``b`` counts as zero.

    Args:
        a: Named tensors.
        b: Tensors under some of the names of ``a``.
        scale: Factor of ``b``.

    Returns:
        Tensors keyed like ``a``.
    """
    return {k: v + scale * b[k] if k in b else v for k, v in a.items()}


def leaves(params: Params) -> Params:
    """The same values without history, ready to be differentiated.

    Args:
        params: Named tensors.

    Returns:
        Fresh leaves that share the memory of ``params``.
    """
    return {k: v.detach().requires_grad_() for k, v in params.items()}


def detached(params: Params) -> Params:
    """The same values without history.

    Args:
        params: Named tensors.

    Returns:
        Tensors that share the memory of ``params``.
    """
    return {k: v.detach() for k, v in params.items()}


def cloned(params: Params) -> Params:
    """Copies of the values, without history.

    Args:
        params: Named tensors.

    Returns:
        Tensors with memory of their own.
    """
    return {k: v.detach().clone() for k, v in params.items()}


def moved_to(device: torch.device, params: Params) -> Params:
    """The same values on a device.

    Args:
        device: That.
        params: Named tensors.

    Returns:
        The tensors themselves where they are there already.
    """
    return {k: v.to(device) for k, v in params.items()}
