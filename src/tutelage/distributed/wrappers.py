"""Removal of the wrappers of ``torch.compile`` and ``DistributedDataParallel``."""

from torch import nn
from torch.nn.parallel import DistributedDataParallel


def uncompiled(module: nn.Module) -> nn.Module:
    """The module inside a compiled one."""
    inner = getattr(module, "_orig_mod", module)
    assert isinstance(inner, nn.Module)
    return inner


def data_parallel(module: nn.Module) -> DistributedDataParallel | None:
    """The ``DistributedDataParallel`` wrapper of a module, if there is one."""
    inner = uncompiled(module)
    return inner if isinstance(inner, DistributedDataParallel) else None
