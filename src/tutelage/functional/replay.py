"""``functional_call`` whose activation checkpoints recompute on the same parameters.

Activation checkpoints recompute parts of a module in the backward pass. Within a replay they
use the parameters, buffers, kernels, precision and random numbers of the forward pass.
"""

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.func import functional_call

from tutelage.distributed.batch_norm import is_synchronised
from tutelage.distributed.fsdp import without_gathering
from tutelage.functional.activation_checkpoints import Checkpoint, checkpoints_of
from tutelage.functional.calls import call_on
from tutelage.functional.decompositions import decomposed
from tutelage.functional.differentiable import differentiable
from tutelage.functional.recomputation import note_replay, recomputing
from tutelage.functional.trees import cloned
from tutelage.types import Params

Context = Callable[[nn.Module], AbstractContextManager[None]]

_CHECKED: "weakref.WeakSet[nn.Module]" = weakref.WeakSet()
"""modules none of whose checkpoints reads batch statistics that change after it"""
_ONE_AT_A_TIME = threading.RLock()
"""two devices' backward passes must not exchange a module's parameters at once"""


@contextmanager
def twice_differentiable(module: nn.Module) -> Iterator[None]:
    """The settings under which recomputed steps run."""
    with differentiable(module), without_gathering(module), decomposed():
        yield


def replay(
    module: nn.Module,
    own: dict[str, Any],
    args: tuple[object, ...],
    kwargs: Mapping[str, object] | None = None,
    *,
    context: Context = twice_differentiable,
    tie_weights: bool = True,
) -> Any:
    """``torch.func.functional_call`` whose recomputations see what its forward pass saw."""
    note_replay(module)
    now, given = Replay(module, own, context, tie_weights), dict(kwargs or {})
    with context(module), checkpoints_of(now):
        if tie_weights:
            outputs = call_on(module, own, args, given)
        else:
            outputs = functional_call(module, own, args, given, tie_weights=False)
    # all processes that normalise together check, also where one has checked alone
    statistics = module not in _CHECKED or is_synchronised()
    for checkpoint in now.checkpoints:
        checkpoint.require_unchanged(own, statistics=statistics)
    if now.checkpoints:
        _CHECKED.add(module)
    now.checkpoints.clear()  # they hold inputs, and this replay
    return outputs


class BufferSnapshot(NamedTuple):
    """A buffer and a copy of its values."""

    tensor: Tensor
    version: int
    copy: Tensor


@dataclass
class Replay:
    """A call of a module on other parameters and buffers."""

    module: nn.Module
    own: dict[str, Any]
    context: Context
    tie_weights: bool
    open: int = 0
    """checkpoints that are being run"""
    kept: dict[str, BufferSnapshot] = field(default_factory=dict)
    """the buffers at the last checkpoint"""
    checkpoints: list[Checkpoint] = field(default_factory=list)
    """calls of checkpoints that are over, nested ones left out"""

    def buffer_copies(self) -> Params:
        """Copies of the buffers as they are."""
        for name, x in self.module.named_buffers():
            if not self._is_kept(name, x):
                self.kept[name] = BufferSnapshot(x, x._version, x.detach().clone())
        return {name: kept.copy for name, kept in self.kept.items()}

    def changed_buffers(self) -> list[str]:
        """Names of the buffers that changed since ``buffer_copies``."""
        return [k for k, x in self.module.named_buffers() if not self._is_kept(k, x)]

    def _is_kept(self, name: str, now: Tensor) -> bool:
        kept = self.kept.get(name)
        return kept is not None and kept.tensor is now and kept.version == now._version

    def recompute(self, function: Callable[..., Any], buffers: Params) -> Callable[..., Any]:
        """A function that recomputes a part of the module from given buffers."""

        def run(*args: object, **kwargs: object) -> Any:
            own = {**self.own, **cloned(buffers)}
            inner = Replay(self.module, own, self.context, self.tie_weights, open=1)
            named = {f"module.{name}": x for name, x in own.items()}
            part, ties = CheckpointedPart(self.module, function), self.tie_weights
            with (
                _ONE_AT_A_TIME,
                recomputing(),
                self.context(self.module),
                checkpoints_of(inner),
            ):
                if ties:
                    return call_on(part, named, args, kwargs)
                return functional_call(part, named, args, kwargs, tie_weights=False)

        return run


class CheckpointedPart(nn.Module):
    """A checkpointed function that calls submodules of a module."""

    def __init__(self, module: nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.module = module
        # not as a part of this one: its parameters would be exchanged under two names
        self.function = (function,)

    def forward(self, *args: object, **kwargs: object) -> object:
        """Call the function."""
        return self.function[0](*args, **kwargs)
