"""A module's state beside its parameters: buffers and plain attributes."""

import copy
import random
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

OF_EVERY_MODULE = frozenset(vars(nn.Module()))
"""attributes of ``nn.Module`` itself, parameters and buffers among them"""
CONTAINERS = (list, dict, set, deque)
"""whose contents are copied with them; so are their subclasses"""
GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
FEW = 256
"""entries up to which the tensors in a list or dictionary are copied, too"""


@dataclass
class ModuleState:
    """Copies of the buffers and plain attributes of all submodules, by name."""

    buffers: dict[str, dict[str, Tensor | None]]
    attributes: dict[str, dict[str, Any]]


def state_of(module: nn.Module) -> ModuleState:
    """Copy a module's buffers and plain attributes."""
    known: dict[int, Any] = {}
    buffers: dict[str, dict[str, Tensor | None]] = {}
    attributes: dict[str, dict[str, Any]] = {}
    for name, part in module.named_modules():
        if part._buffers:
            buffers[name] = {k: _copied(b, known) for k, b in part._buffers.items()}
        if _has_own_code(part):
            attributes[name] = {k: _copied(v, known) for k, v in _attributes(part).items()}
    return ModuleState(buffers, attributes)


@contextmanager
def on_state(module: nn.Module, state: ModuleState) -> Iterator[None]:
    """Run a module on another state inside; what the passes change goes to that state.

    The module's own buffers and attributes, the very objects, come back.
    """
    parts = dict(module.named_modules())
    own_buffers = {name: dict(parts[name]._buffers) for name in state.buffers}
    own = {name: _attributes(parts[name]) for name in state.attributes}
    for name, buffers in state.buffers.items():
        parts[name]._buffers.update(buffers)
    for name, attributes in state.attributes.items():
        _replace(parts[name], attributes)
    try:
        yield
    finally:
        for name, buffers in own_buffers.items():
            state.buffers[name] = dict(parts[name]._buffers)
            parts[name]._buffers.update(buffers)
        for name, attributes in own.items():
            state.attributes[name] = _attributes(parts[name])
            _replace(parts[name], attributes)


@contextmanager
def state_kept(owner: object) -> Iterator[None]:
    """Restore the buffers and attributes of an objective that is a module after the passes."""
    with on_state(owner, state_of(owner)) if isinstance(owner, nn.Module) else nullcontext():
        yield


@contextmanager
def attributes_kept(module: nn.Module) -> Iterator[None]:
    """Restore a module's plain attributes and training modes after the passes inside.

    Counters, lists, tensors that are no buffers and generators of random numbers are such;
    training modes come back, too. What ``functional_call`` does for parameters and buffers this
    does for the rest.
    """
    known: dict[int, Any] = {}
    modes = [(part, part.training) for part in _parts(module)]
    parts = [(part, _attributes(part)) for part, _ in modes if _has_own_code(part)]
    for part, own in parts:
        vars(part).update({k: _copied(v, known) for k, v in own.items()})
    try:
        yield
    finally:
        for part, own in parts:
            _replace(part, own)
        for part, training in modes:
            part.training = training


@contextmanager
def modes_kept(module: nn.Module) -> Iterator[None]:
    """Restore the training mode of every part of a module after the block."""
    modes = [(part, part.training) for part in _parts(module)]
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _parts(module: nn.Module) -> list[nn.Module]:
    # as module.modules() gives them, in another order, at a fraction of the time
    found, waiting = {module}, [module]
    while waiting:
        for part in waiting.pop()._modules.values():
            if part is not None and part not in found:
                found.add(part)
                waiting.append(part)
    return list(found)


def _has_own_code(part: nn.Module) -> bool:
    # modules of torch keep settings alone
    return not type(part).__module__.startswith("torch.nn.")


def _attributes(part: nn.Module) -> dict[str, Any]:
    return {k: v for k, v in vars(part).items() if k not in OF_EVERY_MODULE}


def _replace(part: nn.Module, attributes: dict[str, Any]) -> None:
    held = vars(part)
    for name in held.keys() - OF_EVERY_MODULE - attributes.keys():
        del held[name]
    held.update(attributes)


def _copied(value: Any, known: dict[int, Any]) -> Any:
    if not isinstance(value, (Tensor, torch.Generator, *CONTAINERS, *GENERATORS)):
        return value
    if id(value) not in known:
        known[id(value)] = same = _copy(value)
        if isinstance(same, list) and len(same) <= FEW:
            same[:] = [_copied(entry, known) for entry in same]
        elif isinstance(same, dict) and len(same) <= FEW:
            same.update({k: _copied(entry, known) for k, entry in same.items()})
    return known[id(value)]


def _copy(value: Any) -> Any:
    if isinstance(value, nn.Parameter):
        return value
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, torch.Generator):
        return value.clone_state()
    if isinstance(value, GENERATORS):
        return copy.deepcopy(value)
    return copy.copy(value)
