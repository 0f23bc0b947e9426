"""Teachers as a name and plain settings, and back."""

import math
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any

from torch import nn

from tutelage.commentaries.kinds import (
    COUNTS,
    KINDS,
    NESTED_TEACHERS,
    NETWORKS,
    SIMPLE,
    Kind,
    Settings,
)
from tutelage.errors import UsageError


def describe(teacher: nn.Module) -> tuple[str, dict[str, Any]]:
    """The name and the settings from which a teacher can be rebuilt.

    Note: raises ``UsageError`` where the teacher cannot be stored.
    """
    return _described(teacher, KINDS, "a commentary")


def _described(
    module: nn.Module, kinds: Mapping[str, Kind], what: str
) -> tuple[str, dict[str, Any]]:
    name = next((k for k, kind in kinds.items() if isinstance(module, kind.module)), "")
    if not name:
        raise UsageError(
            f"{type(module).__name__} cannot be stored as {what}. Allowed: {', '.join(kinds)}."
        )
    read = kinds[name].read(module)
    settings: dict[str, Any] = {}
    for key, kind in kinds[name].types.items():
        value: Any = read[key] if key in read else getattr(module, key)
        if key == "network":
            network, inside = _described(value, NETWORKS, "the network of a commentary")
            value = {"kind": network, **inside}
        elif key in NESTED_TEACHERS:
            part, inside = _described(value, SIMPLE, "part of a commentary")
            value = {"teacher": part, "settings": inside}
        settings[key] = float(value) if kind is float else value
    default = kinds[name].default
    return name, {k: v for k, v in settings.items() if k not in default or v != default[k]}


def check(name: str, settings: Settings, *, layers: int) -> None:
    """Raise for unknown or mistyped settings, or more layers than stored tensors.

    Note: raises ``UsageError`` where they are damaged.
    """
    _check(KINDS[name].types, KINDS[name].completed(settings), layers)
    if "network" in settings:
        network = settings["network"]
        _check(_known(network, "kind", NETWORKS).types | {"kind": str}, network, layers)
    for part in parts_of(settings):
        _known(part, "teacher", SIMPLE)
        _check({"teacher": str, "settings": dict}, part, layers)
        check(part["teacher"], part["settings"], layers=layers)


def parts_of(settings: Settings) -> Iterator[Settings]:
    """The settings of the teachers inside a teacher."""
    return (settings[key] for key in NESTED_TEACHERS if key in settings)


def _known(settings: Settings, key: str, kinds: Mapping[str, Kind]) -> Kind:
    name = settings.get(key)
    if not isinstance(name, str) or name not in kinds:
        raise UsageError(f"the {key} '{str(name)[:50]}' is unknown: damaged.")
    return kinds[name]


def _check(types: Mapping[str, type | UnionType], settings: Settings, layers: int) -> None:
    for key in types.keys() | settings.keys():
        if key not in types or key not in settings:
            raise UsageError(f"the setting '{key}' is unknown or missing: damaged.")
        value, kind = settings[key], types[key]
        a_bool = kind in (bool, bool | None)
        wrong = not isinstance(value, kind) or (isinstance(value, bool) and not a_bool)
        most = layers if key in COUNTS else 2**31 - 1
        if (
            wrong
            or (isinstance(value, int) and not 0 <= value <= most)
            or (isinstance(value, float) and not math.isfinite(value))
        ):
            raise UsageError(f"the setting '{key}' is damaged: {str(value)[:50]}.")


def classes_of(settings: Settings) -> set[int]:
    """The numbers of classes of a teacher and its parts."""
    own = {settings["classes"]} if "classes" in settings else set()
    return own.union(*(classes_of(part["settings"]) for part in parts_of(settings)))


def sizes_of(settings: Settings) -> set[int]:
    """The image sizes of the networks of a teacher and its parts."""
    network = settings.get("network", {})
    own = {network["size"]} if "size" in network else set()
    return own.union(*(sizes_of(part["settings"]) for part in parts_of(settings)))


def rebuild(name: str, settings: Settings, student: nn.Module) -> nn.Module:
    """The inverse of ``describe``, with fresh weights."""
    arguments = KINDS[name].completed(settings)
    if "network" in arguments:
        inside = dict(arguments["network"])
        arguments["network"] = NETWORKS[inside.pop("kind")].build(inside, student)
    for key in NESTED_TEACHERS:
        if key in arguments:
            part = arguments[key]
            arguments[key] = rebuild(part["teacher"], part["settings"], student)
    return KINDS[name].build(arguments, student)
