"""Errors about state dicts that do not fit a module."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from tutelage.errors import first_few

_SHOWN = 3
"""names of each kind that are named"""


def load_module(module: nn.Module, state: Any, what: str) -> None:
    """``load_state_dict`` with a one-line error about names and shapes."""
    try:
        module.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError):
        require_tensors(state, module.state_dict(), what)
        raise


def require_tensors(
    stored: object, wanted: Mapping[str, Any], what: str, *, kinds: bool = False
) -> None:
    """Raise if stored names, shapes or kinds differ from a module's."""
    if not isinstance(stored, Mapping):
        raise ValueError(f"the stored state of the {what} is a {type(stored).__name__}.")
    mismatch = _names(stored, wanted, what)
    for name in stored.keys() & wanted.keys():
        found, own = stored[name], wanted[name]
        if not isinstance(own, Tensor) or mismatch:
            continue
        if not isinstance(found, Tensor):
            mismatch = f"'{name}' is no tensor but a {type(found).__name__}"
        elif found.shape != own.shape:
            mismatch = f"'{name}' has shape {list(found.shape)}, the {what}'s {list(own.shape)}"
        elif kinds and found.is_floating_point() != own.is_floating_point():
            mismatch = f"'{name}' is of type {found.dtype}, the {what}'s {own.dtype}"
    if mismatch:
        raise ValueError(f"the stored state is not that of the {what}: {mismatch}.")


def _names(stored: Mapping[str, Any], wanted: Mapping[str, Any], what: str) -> str:
    if prefix := _prefix(stored, wanted):
        return f"its names begin with '{prefix}', as of a wrapped module: take that off"
    if prefix := _prefix(wanted, stored):
        return f"its names lack '{prefix}', with which those of the wrapped {what} begin"
    missing = [name for name in wanted if name not in stored]
    unknown = [name for name in stored if name not in wanted]
    mismatch = [f"it lacks {_listed(missing)}"] * bool(missing)
    mismatch += [f"it holds {_listed(unknown)}, which the {what} has not"] * bool(unknown)
    return "; ".join(mismatch)


def _prefix(longer: Mapping[str, Any], shorter: Mapping[str, Any]) -> str:
    # what every name of the one has before the names of the other
    if not shorter or len(longer) != len(shorter) or longer.keys() == shorter.keys():
        return ""
    name = next(iter(longer))
    prefixes = {name.removesuffix(other) for other in shorter if name.endswith(other)} - {""}
    return next((p for p in prefixes if {p + n for n in shorter} == set(longer)), "")


def _listed(names: Sequence[str]) -> str:
    return first_few((f"'{name}'" for name in names), _SHOWN)
