"""Batch normalisation by statistics of all processes' rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tutelage.distributed.groups import Processes
from tutelage.precision import upcast

_TORCH_BATCH_NORM = F.batch_norm
_ACTIVE: list[Processes] = []
"""of the present blocks of ``batch_norm_over``, the innermost last"""


@contextmanager
def batch_norm_over(processes: Processes) -> Iterator[None]:
    """Batch normalisation by the rows of all processes, within a block.

    Replaces the forward pass of ``SyncBatchNorm``, and with ``processes.sync_batch_norm`` all
    of ``torch.nn.functional.batch_norm``. Backward passes of activation checkpoints have to be
    in the block, too. All processes have to call the same layers in the same order.
    """
    synchronised = partial(batch_norm, processes) if processes.size > 1 else _TORCH_BATCH_NORM

    def forward(module: nn.SyncBatchNorm, input: Tensor) -> Tensor:
        # torch's own has no second derivative
        with _patched(F, "batch_norm", synchronised):
            return _BatchNorm.forward(module, input)

    default = synchronised if processes.sync_batch_norm else _TORCH_BATCH_NORM
    _ACTIVE.append(processes)
    try:
        with (
            _patched(F, "batch_norm", default),
            _patched(nn.SyncBatchNorm, "forward", forward),
        ):
            yield
    finally:
        _ACTIVE.pop()


@contextmanager
def _patched(home: object, name: str, function: object) -> Iterator[None]:
    before = getattr(home, name)
    setattr(home, name, function)
    try:
        yield
    finally:
        setattr(home, name, before)


def is_synchronised() -> bool:
    """Whether this is in a block of ``batch_norm_over`` with several processes."""
    return bool(_ACTIVE) and _ACTIVE[-1].size > 1


def batch_norm(
    processes: Processes,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """``F.batch_norm`` over the rows of all processes, by one all-reduce.

    Source: Chan, Golub and LeVeque 1983 for the sum of squares of several parts.
    """
    if not training:
        return _TORCH_BATCH_NORM(
            input, running_mean, running_var, weight, bias, False, momentum, eps
        )
    x, channels = upcast(input), input.shape[1]
    others, shape = [d for d in range(x.ndim) if d != 1], [1, -1] + [1] * (x.ndim - 2)
    values = x.numel() // channels
    own = x.sum(others) / max(values, 1)
    squares = (x - own.view(shape)).square().sum(others)
    row = torch.cat([x.new_tensor([values]), own, squares])
    place = torch.arange(processes.size, device=x.device) == processes.rank
    parts = processes.all_reduce(place.to(x).outer(row))  # a row of each process
    counts, means, squares = parts.split([1, channels, channels], 1)
    count = counts.sum()
    if values < 2 and count == 1:  # reading it waits for a GPU
        raise ValueError(
            "Expected more than 1 value per channel when training, got one in all processes"
        )
    mean = (counts * means).sum(0) / count
    variance = (squares + counts * (means - mean).square()).sum(0) / count
    unbiased = variance * count / (count - 1)
    for running, new in ((running_mean, mean), (running_var, unbiased)):
        if running is not None:
            with torch.no_grad():
                running.lerp_(new.detach().to(running), momentum)
    scale = (variance + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    return torch.addcmul(shift.view(shape), x, scale.view(shape)).to(input.dtype)
