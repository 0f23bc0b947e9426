"""Per-example products by finite differences of the losses."""

from math import isfinite, nan

import torch
from torch import Tensor

from tutelage.functional.trees import inner, plus
from tutelage.per_example.forward import Losses
from tutelage.precision import upcast
from tutelage.types import Params
from tutelage.validation.shapes import require_tensors

SIZE = 1e-3
"""norm of the step along the direction"""


def central_dots(
    losses: Losses, params: Params, direction: Params, size: float = SIZE
) -> Tensor:
    """``(l_i(theta + e g) - l_i(theta - e g)) / 2 e``: two forward passes without a graph.

    Args:
        losses: The losses [B] of every example, as a function of the parameters.
        params: The parameters ``theta``.
        direction: ``g``, by name; parameters without an entry stay as they are.
        size: The norm of ``e g``.

    Returns:
        The dot products [B].
    """
    require_tensors("params", **params)
    require_tensors("A direction", **direction)
    with torch.no_grad():
        here, direction = full_precision(params, direction)
        scale = step_size(direction, size)
        if scale == 0.0:
            return torch.zeros_like(losses(params))
        up = losses(params | plus(here, direction, scale))
        down = losses(params | plus(here, direction, -scale))
        return (up - down) / (2 * scale)


def forward_difference_dots(
    losses: Losses, params: Params, direction: Params, here: Tensor, size: float = SIZE
) -> Tensor:
    """``(l_i(theta + e g) - l_i(theta)) / e``: one forward pass, with losses known already.

    Args:
        losses: The losses [B] of every example, as a function of the parameters.
        params: The parameters ``theta``.
        direction: ``g``, by name; parameters without an entry stay as they are.
        here: The losses [B] at ``theta``.
        size: The norm of ``e g``.

    Returns:
        The dot products [B].
    """
    require_tensors("params", **params)
    require_tensors("A direction", **direction)
    require_tensors("forward_difference_dots", here=here)
    with torch.no_grad():
        scale = step_size(direction, size)
        if scale == 0.0:
            return torch.zeros_like(here)
        start, direction = full_precision(params, direction)
        return (losses(params | plus(start, direction, scale)) - here) / scale


def full_precision(params: Params, direction: Params) -> tuple[Params, Params]:
    """Parameters and direction in float32 or better.

    In half precision parameters that are so near are equal.
    """
    return {k: upcast(params[k].detach()) for k in direction}, {
        k: upcast(g) for k, g in direction.items()
    }


def step_size(direction: Params, size: float) -> float:
    """``e`` such that ``e g`` has the given norm."""
    norm = float(inner(direction, direction).sqrt()) if direction else 0.0
    if not isfinite(norm):
        return nan
    return size / norm if norm > 0 else 0.0
