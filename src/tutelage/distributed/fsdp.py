"""Students sharded by ``fully_shard``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from tutelage.types import Params


def is_sharded(module: nn.Module) -> bool:
    """Whether ``fully_shard`` has been applied to a module."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(module, fsdp.FSDPModule)


def full_tensor(x: Tensor) -> Tensor:
    """The full tensor of a ``DTensor``; other tensors as they are."""
    gather = getattr(x, "full_tensor", None)  # of a DTensor
    return x if gather is None else gather()


def full_tensors(params: Params) -> Params:
    """``full_tensor`` of named tensors."""
    return {name: full_tensor(x) for name, x in params.items()}


def reshard(module: nn.Module) -> None:
    """Free full parameters left by a forward pass without a graph."""
    if is_sharded(module):
        for part in module.modules():
            reshard = getattr(part, "reshard", None)
            if is_sharded(part) and reshard is not None:
                reshard()


def group_of(module: nn.Module) -> Any:
    """The process group of a sharded module."""
    meshes = [getattr(p, "device_mesh", None) for p in module.parameters()]
    mesh = next(mesh for mesh in meshes if mesh is not None)
    return mesh.get_group() if mesh.ndim == 1 else None


@contextmanager
def without_gathering(module: nn.Module) -> Iterator[None]:
    """Disable the hooks of ``fully_shard`` inside, for calls on given full parameters."""
    if not is_sharded(module):
        yield
        return
    parts = list(module.modules())
    tables = [
        table for part in parts for table in (part._forward_pre_hooks, part._forward_hooks)
    ]
    before = [dict(table) for table in tables]
    try:
        for table in tables:
            for key in [key for key, hook in table.items() if _gathers(hook)]:
                del table[key]
        yield
    finally:
        for table, hooks in zip(tables, before, strict=True):
            table.clear()
            table.update(hooks)


def _gathers(hook: object) -> bool:
    home = getattr(hook, "__module__", "")
    return home.startswith("torch.distributed.") and "fsdp" in home
