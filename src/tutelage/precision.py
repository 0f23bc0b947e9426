"""The autocast type of a step, so that recomputed steps round the same."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

FULL = torch.float32
"""means that ``torch.autocast`` is off, since it never casts to this type"""


def autocast_now(device: torch.device) -> torch.dtype:
    """The present autocast type; float32 where autocast is off."""
    if not torch.amp.is_autocast_available(device.type):
        return FULL
    on = torch.is_autocast_enabled(device.type)
    return torch.get_autocast_dtype(device.type) if on else FULL


@contextmanager
def autocast_to(dtype: torch.dtype, device: torch.device) -> Iterator[None]:
    """Autocast to a type inside, whatever the present setting.

    No cast is kept: inside an autocast region around a whole loop, kept casts of the weights
    would survive the optimiser's steps, and hold on to the graphs of recomputed steps.
    """
    if autocast_now(device) == dtype == FULL:
        yield
        return
    on = dtype != FULL
    kind = dtype if on else None
    with torch.autocast(device.type, dtype=kind, enabled=on, cache_enabled=False):
        yield


def upcast(tensor: Tensor) -> Tensor:
    """A tensor in float32 or better."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
