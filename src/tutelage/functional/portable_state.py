"""State dicts under the names of an unwrapped, uncompiled student."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from tutelage.functional.differentiable import original
from tutelage.storage.state_dicts import load_module

COMPILED = "_orig_mod"
"""the name by which what ``torch.compile`` gives holds what it was given"""
PARALLEL = "module"
"""the same of ``DistributedDataParallel``"""
Rename = Callable[[str], str]


def plain_names(module: nn.Module) -> Rename:
    """A function from a module's names to names without wrappers."""
    marks: list[tuple[str, str]] = []
    for name, part in module.named_modules():
        before = f"{name}." if name else ""
        if COMPILED in part._modules:
            marks.append((before, COMPILED))
        elif isinstance(part, DistributedDataParallel):
            marks.append((before, PARALLEL))
    marks.sort(key=lambda mark: len(mark[0]), reverse=True)

    def plain(name: str) -> str:
        for before, own in marks:
            if name.startswith(f"{before}{own}."):
                name = before + name.removeprefix(f"{before}{own}.")
        return name

    return plain


def names_in(module: nn.Module) -> Rename:
    """A function from names of any wrapping to a module's own names."""
    plain = plain_names(module)
    known = [*module.state_dict(), *dict(module.named_buffers())]
    own = {plain(name): name for name in known}

    def found(name: str) -> str:
        bare = ".".join(word for word in name.split(".") if word != COMPILED)
        for known in (name, bare, bare.removeprefix(f"{PARALLEL}.")):
            if known in own:
                return own[known]
        return name

    return found


def state_of(module: nn.Module) -> dict[str, Any]:
    """A module's state dict under unwrapped names."""
    inner = original(module)
    return renamed(inner.state_dict(), plain_names(inner))


def load_state(module: nn.Module, state: Any, what: str) -> None:
    """Load a state dict of any wrapping.

    Note: raises as ``states.load_module`` does.
    """
    inner = original(module)
    named = renamed(state, names_in(inner)) if isinstance(state, Mapping) else state
    load_module(inner, named, what)


def renamed(named: Mapping[str, Any], rename: Rename) -> dict[str, Any]:
    """Rename the keys of a mapping; the mapping itself where no name changes."""
    names = {name: rename(name) for name in named}
    if isinstance(named, dict) and all(old == new for old, new in names.items()):
        return named  # which may know the versions of its parts
    return {names[name]: value for name, value in named.items()}


def optimizer_state_of(optimizer: Optimizer, module: nn.Module) -> dict[str, Any]:
    """An optimiser's state dict under unwrapped parameter names."""
    state, inner = optimizer.state_dict(), original(module)
    plain = plain_names(inner)
    names = {p: plain(name) for name, p in inner.named_parameters()}
    groups = zip(state["param_groups"], optimizer.param_groups, strict=True)
    return {
        **state,
        "param_groups": [
            {**kept, "param_names": [names[p] for p in own["params"]]}
            if "param_names" in kept
            else kept
            for kept, own in groups
        ],
    }


def load_optimizer_state(optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """Load an optimiser's state dict; parameters keep their names."""
    kept, own = state["param_groups"], optimizer.param_groups
    if len(kept) == len(own):  # else torch says what is wrong
        kept = [
            {k: v for k, v in new.items() if k != "param_names"}
            | {k: v for k, v in old.items() if k == "param_names"}
            for new, old in zip(kept, own, strict=True)
        ]
    optimizer.load_state_dict({**state, "param_groups": kept})
