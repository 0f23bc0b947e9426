"""Running a module again on other parameters, in the forward pass and in any recomputation.

Activation checkpoints run parts of a module once more while gradients are taken, which is after
the forward pass has given the module's own parameters back. Within a replay they run under what
held when the part was first run: parameters, buffers, kernels, precision and random numbers.
"""

import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import torch
import torch.utils.checkpoint as torch_checkpoint
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tutelage.decompositions import decomposed
from tutelage.differentiable import differentiable
from tutelage.errors import UnsupportedStudentError
from tutelage.recomputation import note_replay, recomputing
from tutelage.records import Params
from tutelage.sharded import without_gathering
from tutelage.trees import cloned

Context = Callable[[nn.Module], AbstractContextManager[None]]

GENERATORS = (
    "_checkpoint_without_reentrant_generator_impl",
    "_checkpoint_without_reentrant_generator",
)
"""what ``torch.utils.checkpoint`` wraps around a call: the first that this torch has"""
COMPOSABLE = "torch.distributed._composable.checkpoint_activation"
"""holds a name of its own for it"""
_THREAD = threading.local()
_ONE_AT_A_TIME = threading.RLock()
"""two devices' backward passes must not exchange a module's parameters at once"""


@contextmanager
def twice_differentiable(module: nn.Module) -> Iterator[None]:
    """What a student is run under wherever a step of it is taken again.

    Args:
        module: The student.

    Yields:
        Nothing.
    """
    with differentiable(module), without_gathering(module), decomposed():
        yield


def replay(
    module: nn.Module,
    own: dict[str, Any],
    args: tuple[object, ...],
    kwargs: Mapping[str, object] | None = None,
    *,
    within: Context = twice_differentiable,
    tie_weights: bool = True,
) -> Any:
    """``torch.func.functional_call`` whose recomputations see what its forward pass saw.

    Args:
        module: The module; its own state is left alone.
        own: Parameters and buffers to run on; holds the buffers afterwards.
        args: The module's arguments.
        kwargs: Its keyword arguments.
        within: What it is run under.
        tie_weights: As in ``functional_call``.

    Returns:
        What the module gives.
    """
    note_replay(module)
    now, given = Replay(module, own, within, tie_weights), dict(kwargs or {})
    with within(module), _current(now), _checkpoints_of_replays():
        return functional_call(module, own, args, given, tie_weights=tie_weights)


class Kept(NamedTuple):
    """A buffer as it was."""

    tensor: Tensor
    version: int
    copy: Tensor


@dataclass
class Replay:
    """A module that is being run on other parameters and buffers than its own."""

    module: nn.Module
    own: dict[str, Any]
    within: Context
    tie_weights: bool
    open: int = 0
    """checkpoints that are being run"""
    kept: dict[str, Kept] = field(default_factory=dict)
    """the buffers at the last checkpoint"""

    def copies(self) -> Params:
        """The buffers as they are now, while the module is run.

        Returns:
            Copies, shared by the checkpoints between which a buffer has not changed.
        """
        for name, x in self.module.named_buffers():
            if not self._is_kept(name, x):
                self.kept[name] = Kept(x, x._version, x.detach().clone())
        return {name: kept.copy for name, kept in self.kept.items()}

    def changed(self) -> list[str]:
        """The buffers that have changed since they were copied.

        Returns:
            Their names.
        """
        return [k for k, x in self.module.named_buffers() if not self._is_kept(k, x)]

    def _is_kept(self, name: str, now: Tensor) -> bool:
        kept = self.kept.get(name)
        return kept is not None and kept.tensor is now and kept.version == now._version

    def again(self, function: Callable[..., Any], buffers: Params) -> Callable[..., Any]:
        """A part of the module, to be run from buffers as they once were.

        Args:
            function: The part.
            buffers: Those.

        Returns:
            The part; it leaves ``buffers`` as they are.
        """

        def run(*args: object, **kwargs: object) -> Any:
            own = {**self.own, **cloned(buffers)}
            inner = Replay(self.module, own, self.within, self.tie_weights, open=1)
            named = {f"module.{name}": x for name, x in own.items()}
            part, ties = Part(self.module, function), self.tie_weights
            with _ONE_AT_A_TIME, recomputing(), self.within(self.module), _current(inner):
                with _checkpoints_of_replays():
                    return functional_call(part, named, args, kwargs, tie_weights=ties)

        return run


class Part(nn.Module):
    """A function that calls some of a module's parts.

    Args:
        module: The module.
        function: The function.
    """

    def __init__(self, module: nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.module = module
        # not as a part of this one: its parameters would be exchanged under two names
        self.function = (function,)

    def forward(self, *args: object, **kwargs: object) -> object:
        """Call the function.

        Args:
            *args: Its arguments.
            **kwargs: Its keyword arguments.

        Returns:
            What it gives.
        """
        return self.function[0](*args, **kwargs)


class Checkpoint:
    """A call of ``torch.utils.checkpoint.checkpoint`` within a replay.

    Args:
        replay: The replay.
        given: What torch's own generator was given, by name.
    """

    def __init__(self, replay: Replay, given: Mapping[str, Any]) -> None:
        self.replay = replay
        self.function: Callable[..., Any] = given["fn"]
        self.args = tuple(given["args"])
        self.kwargs = dict(given["kwargs"])
        self.contexts: Callable[[], tuple[Any, Any]] = given["context_fn"]
        self.preserves: bool = given["preserve_rng_state"]
        self.before = replay.copies()
        self.drawn = torch.get_rng_state()
        self.devices, self.drawn_there = torch_checkpoint.get_device_states(*self.args)

    def finish(self) -> None:
        """Do to the buffers what the recomputation of a student in training does to them.

        Torch's recomputation starts from the buffers that the forward pass left. It may stop
        before the part's end, which matters to the statistics of nested checkpoints alone.

        Raises:
            UnsupportedStudentError: If running the part again gives something else.
        """
        if not self.preserves and not torch.equal(self.drawn, torch.get_rng_state()):
            raise UnsupportedStudentError(
                "A part of the student in checkpoint(preserve_rng_state=False) draws random "
                "numbers, so that its backward pass sees others than its forward pass, and no "
                "step can be taken again. Leave preserve_rng_state at True."
            )
        changed = [] if self.replay.open else self.replay.changed()
        if not changed:
            return
        for name in changed:  # the forward pass's graph may hold the one there is
            home, _, own = name.rpartition(".")
            part = self.replay.module.get_submodule(home)
            setattr(part, own, getattr(part, own).clone())
        with torch.no_grad():
            second = self._run(self.function)
            if all(self._is_blind(name) for name in changed):
                return
            first = self._run(self.replay.again(self.function, self.before))
        if not _agree(first, second):
            raise UnsupportedStudentError(
                "A checkpointed part of the student gives other numbers each time it is run, "
                f"since it changes {', '.join(changed)}: its backward pass sees others than its "
                "forward pass, and no step can be taken again. Leave it out of the checkpoint."
            )

    def _run(self, function: Callable[..., Any]) -> object:
        kind = next((a.device.type for a in self.args if isinstance(a, Tensor)), "cpu")
        kind = "cuda" if kind == "cpu" else kind
        context = _unless_selective(self.contexts()[1])
        with torch.random.fork_rng(self.devices, device_type=kind), context:
            torch.set_rng_state(self.drawn)
            torch_checkpoint.set_device_states(
                self.devices, self.drawn_there, device_type=kind
            )
            return function(*self.args, **self.kwargs)

    def _is_blind(self, name: str) -> bool:
        # these layers do not see the statistics that they are changing
        module = self.replay.module.get_submodule(name.rpartition(".")[0])
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
def _current(replay: Replay) -> Iterator[None]:
    before = getattr(_THREAD, "replay", None)
    _THREAD.replay = replay
    try:
        yield
    finally:
        _THREAD.replay = before


@contextmanager
def _checkpoints_of_replays() -> Iterator[None]:
    # people hold the function ``checkpoint`` itself, so what it calls is exchanged
    reentrant = torch_checkpoint.CheckpointFunction
    if "apply" in vars(reentrant):
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
    original: Callable[..., Generator[None]], *given: Any, **options: Any
) -> Generator[None]:
    current: Replay | None = getattr(_THREAD, "replay", None)
    if current is None:
        yield from original(*given, **options)
        return
    bound = signature(original).bind(*given, **options)
    bound.apply_defaults()
    known = bound.arguments
    call, contexts = Checkpoint(current, known), known["context_fn"]
    if contexts is torch_checkpoint.noop_context_fn:
        known["fn"] = current.again(call.function, call.before)
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


def _kept(contexts: Callable[[], tuple[Any, Any]]) -> Generator[None]:
    # nothing is recomputed
    with _unless_selective(contexts()[0]):
        yield


def _reentrant(
    original: Callable[..., Any], function: Callable[..., Any], preserve: bool, *args: Any
) -> Any:
    """A reentrant checkpoint in the other form, since no gradient of its gradient can be taken.

    Args:
        original: Torch's own.
        function: The part.
        preserve: Whether random numbers are to be drawn again as they were.
        *args: The part's arguments.

    Returns:
        What it gives; where no argument needs a gradient, the part gets none either.
    """
    if getattr(_THREAD, "replay", None) is None:
        return original(function, preserve, *args)
    reached = any(isinstance(a, Tensor) and a.requires_grad for a in args)
    if torch.is_grad_enabled() and not reached:
        with torch.no_grad():
            return function(*args)
    return torch_checkpoint.checkpoint(
        function, *args, use_reentrant=False, preserve_rng_state=preserve
    )
