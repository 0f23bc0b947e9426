"""Activation checkpoints in a module that runs under ``functional_call``.

They recompute parts of it in the backward pass, when the module has its own parameters again;
see ``tutelage.functional.replay``.
"""

import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from inspect import signature
from typing import Any, Protocol, runtime_checkable

import torch
import torch.utils.checkpoint as torch_checkpoint
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tutelage.errors import UnsupportedStudentError
from tutelage.types import Params

GENERATORS = (
    "_checkpoint_without_reentrant_generator_impl",
    "_checkpoint_without_reentrant_generator",
)
"""what ``torch.utils.checkpoint`` wraps around a call: the first that this torch has"""
COMPOSABLE = "torch.distributed._composable.checkpoint_activation"
"""holds a name of its own for it"""
_THREAD = threading.local()


@runtime_checkable
class ActiveReplay(Protocol):
    """A module that is running on other parameters; see ``tutelage.functional.replay``."""

    module: nn.Module
    open: int
    checkpoints: "list[Checkpoint]"

    def buffer_copies(self) -> Params:
        """Copies of the buffers as they are."""
        ...

    def changed_buffers(self) -> list[str]:
        """Names of the buffers that changed since ``buffer_copies``."""
        ...

    def recompute(self, function: Callable[..., Any], buffers: Params) -> Callable[..., Any]:
        """A function that recomputes a part of the module from given buffers."""
        ...


@contextmanager
def checkpoints_of(active: ActiveReplay) -> Iterator[None]:
    """Let checkpoints inside recompute on the parameters of the active replay."""
    before = getattr(_THREAD, "active", None)
    _THREAD.active = active
    try:
        with _exchanged():
            yield
    finally:
        _THREAD.active = before


class Checkpoint:
    """A call of ``torch.utils.checkpoint.checkpoint``.

    Args:
        running: The run that it is a part of.
        given: What torch's own generator was given, by name.
    """

    def __init__(self, active: ActiveReplay, call: Mapping[str, Any]) -> None:
        self.active = active
        self.function: Callable[..., Any] = call["fn"]
        self.args = tuple(call["args"])
        self.kwargs = dict(call["kwargs"])
        self.contexts: Callable[[], tuple[Any, Any]] = call["context_fn"]
        self.preserves: bool = call["preserve_rng_state"]
        self.before = self.after = active.buffer_copies()
        self.drawn = torch.get_rng_state()
        self.devices, self.drawn_there = torch_checkpoint.get_device_states(*self.args)

    def finish(self) -> None:
        """Update the buffers as the recomputation in training does.

        Torch recomputes from the buffers after the forward pass, and may stop before the part's
        end, which only affects the statistics of nested checkpoints.
        """
        if not self.preserves and not torch.equal(self.drawn, torch.get_rng_state()):
            raise UnsupportedStudentError(
                "A part of the student in checkpoint(preserve_rng_state=False) draws random "
                "numbers, so that its backward pass sees others than its forward pass, and no "
                "step can be recomputed. Leave preserve_rng_state at True."
            )
        changed = [] if self.active.open else self.active.changed_buffers()
        if not changed:
            return
        for name in changed:  # the forward pass's graph may hold the one there is
            home, _, own = name.rpartition(".")
            part = self.active.module.get_submodule(home)
            setattr(part, own, getattr(part, own).clone())
        with torch.no_grad():
            second = self._run(self.function)
            if all(self._is_blind(name) for name in changed):
                return
            first = self._run(self.active.recompute(self.function, self.before))
        if not _agree(first, second):
            raise UnsupportedStudentError(
                "A checkpointed part of the student gives other numbers each time it is run, "
                f"since it changes {', '.join(changed)}: its backward pass sees others than "
                "its forward pass, and no step can be recomputed. Leave it out of the "
                "checkpoint."
            )

    def require_unchanged(self, buffers: Params, *, statistics: bool) -> None:
        """Raise if the part gives other numbers on the buffers at the forward pass's end.

        These are what torch recomputes it on in training. Without ``statistics`` a part is not
        checked where only batch statistics changed.
        """
        ends = {name: buffers.get(name, was).detach() for name, was in self.after.items()}
        changed = [name for name, was in self.after.items() if not torch.equal(was, ends[name])]
        if not changed or (not statistics and all(map(self._is_blind, changed))):
            return
        with torch.no_grad():
            first, second = (
                self._run(self.active.recompute(self.function, known))
                for known in (self.after, ends)
            )
        if not _agree(first, second):
            raise UnsupportedStudentError(
                f"A checkpointed part of the student reads {', '.join(changed)}, which the "
                "forward pass changes after it: its backward pass sees other numbers than its "
                "forward pass, and no step can be recomputed. Leave it out of the checkpoint, "
                "or change the buffer before it."
            )

    def _run(self, function: Callable[..., Any]) -> object:
        kind = next((a.device.type for a in self.args if isinstance(a, Tensor)), "cpu")
        kind = "cuda" if kind == "cpu" else kind
        context = _unless_selective(self.contexts()[1])
        with torch.random.fork_rng(self.devices, device_type=kind), context:
            torch.set_rng_state(self.drawn)
            torch_checkpoint.set_device_states(self.devices, self.drawn_there, device_type=kind)
            return function(*self.args, **self.kwargs)

    def _is_blind(self, name: str) -> bool:
        # these layers do not see the statistics that they are changing
        module = self.active.module.get_submodule(name.rpartition(".")[0])
        return isinstance(module, _BatchNorm | _InstanceNorm)


def _unless_selective(context: Any) -> Any:
    # what selective checkpoints keep can be used in one backward pass only
    return nullcontext() if isinstance(context, TorchDispatchMode) else context


def _agree(first: object, second: object) -> bool:
    pairs = zip(tree_leaves(first), tree_leaves(second), strict=True)
    return all(
        torch.allclose(a, b, rtol=torch.finfo(a.dtype).eps ** 0.5, equal_nan=True)
        for a, b in pairs
        if isinstance(a, Tensor) and a.is_floating_point()
    )


@contextmanager
def _exchanged() -> Iterator[None]:
    # people hold the function ``checkpoint`` itself, so what it calls is exchanged
    reentrant = torch_checkpoint.CheckpointFunction
    if isinstance(vars(reentrant).get("apply"), partial):
        yield
        return
    name = next(name for name in GENERATORS if hasattr(torch_checkpoint, name))
    homes = [torch_checkpoint, sys.modules.get(COMPOSABLE)]
    homes, generator = [h for h in homes if hasattr(h, name)], getattr(torch_checkpoint, name)
    for home in homes:
        setattr(home, name, partial(_checkpointed, generator))
    reentrant.apply = partial(_reentrant, reentrant.apply)  # type: ignore[method-assign]
    try:
        with torch_checkpoint.set_checkpoint_debug_enabled(None):
            yield
    finally:
        del reentrant.apply
        for home in homes:
            setattr(home, name, generator)


def _checkpointed(
    original: Callable[..., Generator[None]], *args: Any, **options: Any
) -> Generator[None]:
    current: ActiveReplay | None = getattr(_THREAD, "active", None)
    if current is None:
        yield from original(*args, **options)
        return
    bound = signature(original).bind(*args, **options)
    bound.apply_defaults()
    known = bound.arguments
    call, contexts = Checkpoint(current, known), known["context_fn"]
    if contexts is torch_checkpoint.noop_context_fn:
        known["fn"] = current.recompute(call.function, call.before)
        known["debug"] = False
        around = original(*bound.args, **bound.kwargs)
    else:
        around = _kept(contexts)
    current.open += 1
    try:
        yield from around
    finally:
        current.open -= 1
    call.finish()
    if not current.open:
        call.after = current.buffer_copies()
        current.checkpoints.append(call)


def _kept(contexts: Callable[[], tuple[Any, Any]]) -> Generator[None]:
    # nothing is recomputed
    with _unless_selective(contexts()[0]):
        yield


def _reentrant(
    original: Callable[..., Any], function: Callable[..., Any], preserve: bool, *args: Any
) -> Any:
    """A non-reentrant checkpoint in place of a reentrant one."""
    if getattr(_THREAD, "active", None) is None:
        return original(function, preserve, *args)
    reached = any(isinstance(a, Tensor) and a.requires_grad for a in args)
    if torch.is_grad_enabled() and not reached:
        with torch.no_grad():
            return function(*args)
    return torch_checkpoint.checkpoint(
        function, *args, use_reentrant=False, preserve_rng_state=preserve
    )
