"""Dot products by the forward-mode derivative of the losses: exact for every student."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from tutelage.records import Params

Losses = Callable[[Params], Tensor]
"""from the student's parameters to losses [L], the same again for the same parameters"""


def forward_dots(losses: Losses, params: Params, direction: Params) -> Tensor:
    """``<d l_i / d theta, g>`` for every row, along with the losses' forward pass.

    With batch normalisation in training mode it includes the path through the batch statistics.

    Args:
        losses: The losses as a function of the parameters.
        params: Where to take the derivative.
        direction: g, keyed like ``params``; a missing one counts as zero.

    Returns:
        [L].
    """
    load_forward_mode()
    # dual tensors, not torch.func.jvp: under that, dropout may draw another mask
    with torch.no_grad(), without_fast_attention(), dual_level():
        moved = {k: make_dual(params[k].detach(), v) for k, v in direction.items()}
        primal, tangent = unpack_dual(losses(params | moved))
    return torch.zeros_like(primal) if tangent is None else tangent


@cache
def load_forward_mode() -> None:
    """Let torch compile its forward-mode formulas, silencing its own deprecation warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with dual_level():
            make_dual(torch.zeros(()), torch.zeros(()))


@contextmanager
def without_fast_attention() -> Iterator[None]:
    """Leave torch's inference path for attention aside: it has no derivative of any kind.

    Yields:
        Nothing.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
