"""Students as users wrap them: compiled, or for several processes."""

from torch import nn
from torch.nn.parallel import DistributedDataParallel


def uncompiled(module: nn.Module) -> nn.Module:
    """The module that ``torch.compile`` was given."""
    inner = getattr(module, "_orig_mod", module)
    assert isinstance(inner, nn.Module)
    return inner


def data_parallel(module: nn.Module) -> DistributedDataParallel | None:
    """The wrapper that sums the gradients of several processes, compiled or not."""
    inner = uncompiled(module)
    return inner if isinstance(inner, DistributedDataParallel) else None
