"""Per-example products by forward-mode differentiation of the losses."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from tutelage.distributed.batch_norm import is_synchronised
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.derivatives import is_once_differentiable, missing_operator
from tutelage.functional.differentiable import without_fast_path
from tutelage.functional.recomputation import no_other_recomputation
from tutelage.functional.trees import inner, leaves, reached_grad
from tutelage.types import Params
from tutelage.validation.shapes import require_tensors

Losses = Callable[[Params], Tensor]
"""from the student's parameters to losses [L], the same again for the same parameters"""


def forward_dots(losses: Losses, params: Params, direction: Params) -> Tensor:
    """``<d l_i / d theta, g>`` for every row, by forward mode.

    With batch normalisation in training mode it includes the path through the batch statistics.
    Where an operator has no formula for forward mode, ``backward_dots`` gives the same numbers.

    Args:
        losses: The losses [B] of every example, as a function of the parameters.
        params: The parameters ``theta``.
        direction: ``g``, by name; a parameter without an entry counts as zero.

    Returns:
        The dot products [B].
    """
    require_tensors("params", **params)
    require_tensors("A direction", **direction)
    load_forward_mode()
    try:
        # dual tensors, not torch.func.jvp: under that, dropout may draw another mask
        with torch.no_grad(), without_fast_path(), dual_level(), as_constants():
            moved = {k: make_dual(params[k].detach(), v) for k, v in direction.items()}
            primal, tangent = unpack_dual(losses(params | moved))
    except RuntimeError as error:  # what else may be wrong is so in a backward pass, too
        if isinstance(error, torch.OutOfMemoryError):
            raise
        return backward_dots(losses, params, direction)
    return torch.zeros_like(primal) if tangent is None else tangent


def backward_dots(losses: Losses, params: Params, direction: Params) -> Tensor:
    """The same by double backward, ``d <g, v> / d u_i`` with ``g = d (sum u_i l_i) / d theta``.

    It takes two backward passes; where an operator has no second derivative, one for each row,
    which processes that normalise by one another's rows have different numbers of.
    """
    with torch.enable_grad():
        theta = leaves({k: params[k] for k in direction})
        found = losses(params | theta)
        if not found.requires_grad:
            return torch.zeros_like(found)
        u = torch.ones_like(found, requires_grad=True)
        g = reached_grad((u * found).sum(), theta, create_graph=True)
        known = {k: x for k, x in g.items() if x.requires_grad}
        if not is_once_differentiable(known.values()):
            try:
                return dots_in_rows(known, direction, u)
            except RuntimeError as error:
                if missing_operator(error) is None:
                    raise
        if is_synchronised():
            raise UnsupportedStudentError(
                "An operator has neither a forward-mode nor a second derivative, so that each "
                "row takes a backward pass, but batch normalisation is by the rows of several "
                "processes. Use one process, or write the operator by others."
            )
        rows = [reached_grad(one, theta, retain_graph=True) for one in found]
    zero = torch.zeros_like(found[0]).detach()
    return torch.stack([inner(row, direction).to(zero) if row else zero for row in rows])


def dots_in_rows(gradient: Params, direction: Params, u: Tensor) -> Tensor:
    """``d <g, v> / d u``."""
    if not gradient:
        return torch.zeros_like(u)
    pulls = [direction[k] for k in gradient]
    with no_other_recomputation():
        (dots,) = torch.autograd.grad(
            list(gradient.values()), u, pulls, retain_graph=True, materialize_grads=True
        )
    return dots


@contextmanager
def as_constants() -> Iterator[None]:
    """Drop tangents of what is computed under ``torch.no_grad`` inside.

    It has no part in the gradient, whose dot product is wanted; torch's forward mode would
    follow it all the same.
    """
    enter, leave = torch.no_grad.__enter__, torch.no_grad.__exit__
    before: list[bool] = []

    def enter_without(self: torch.no_grad) -> None:
        enter(self)
        before.append(torch._C._is_fwd_grad_enabled())
        torch._C._set_fwd_grad_enabled(False)

    def leave_without(self: torch.no_grad, *error: Any) -> None:
        torch._C._set_fwd_grad_enabled(before.pop())
        leave(self, *error)

    def exchange(begin: object, end: object) -> None:
        for name, method in (("__enter__", begin), ("__exit__", end)):
            setattr(torch.no_grad, name, method)

    exchange(enter_without, leave_without)
    try:
        yield
    finally:
        exchange(enter, leave)


@cache
def load_forward_mode() -> None:
    """Load torch's forward-mode formulas, without their deprecation warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with dual_level():
            make_dual(torch.zeros(()), torch.zeros(()))
