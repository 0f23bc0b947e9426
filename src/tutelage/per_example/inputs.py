"""Detached inputs of a module call, guarded against in-place changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tutelage.per_example.row_arithmetic import all_tensors, map_tensors


@dataclass
class ModuleInputs:
    """Arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    versions: list[tuple[Tensor, int]] = field(default_factory=list)
    """tensors that share their memory with the caller's, and how often those were written to"""

    @property
    def overwritten(self) -> bool:
        """Whether an argument was changed in place since."""
        return any(tensor._version != version for tensor, version in self.versions)

    def changed(self, change: Callable[[Tensor], Tensor]) -> "ModuleInputs":
        """The arguments with every floating-point tensor mapped."""

        def floating(tensor: Tensor) -> Tensor:
            return change(tensor) if tensor.is_floating_point() else tensor

        args, kwargs = map_tensors(self.args, floating), map_tensors(self.kwargs, floating)
        assert isinstance(args, tuple)
        assert isinstance(kwargs, dict)
        same = {id(t) for t in all_tensors((args, kwargs))}
        return ModuleInputs(args, kwargs, [(t, v) for t, v in self.versions if id(t) in same])

    def stored_as(self, kind: torch.dtype) -> "ModuleInputs":
        """The arguments with floating-point tensors in another dtype."""
        return self.changed(lambda t: t.to(kind))


def capture_inputs(args: tuple[object, ...], kwargs: dict[str, object]) -> ModuleInputs:
    """Detach the arguments of a call, without copying."""
    kept_args = map_tensors(args, Tensor.detach)
    kept_kwargs = map_tensors(kwargs, Tensor.detach)
    assert isinstance(kept_args, tuple)
    assert isinstance(kept_kwargs, dict)
    tensors = all_tensors((kept_args, kept_kwargs))
    # a detached tensor counts along when the original is written to
    versions = [(t, t._version) for t in tensors if not t.is_inference()]
    return ModuleInputs(kept_args, kept_kwargs, versions)
