"""Settings by their flags, so that messages name what is typed."""

import dataclasses
from collections.abc import Sequence
from typing import Any


def flag(name: str) -> str:
    """The flag of a setting: ``--held-out`` for ``held_out``."""
    return f"--{name.replace('_', '-')}"


def flags_of(settings: Any, names: Sequence[str] = ()) -> list[str]:
    """The flags and values of settings that differ from their defaults.

    Of some fields, or of all but ``data``, which is no flag.
    """
    words: list[str] = []
    fields = [field.name for field in dataclasses.fields(settings) if field.name != "data"]
    for name in names or fields:
        value = getattr(settings, name)
        if value != getattr(type(settings), name):
            values = value if isinstance(value, tuple) else () if value is True else (value,)
            words += [flag(name), *map(str, values)]
    return words


class ByFlag:
    """Settings whose fields are read by their flags, for checks that name what they read."""

    def __init__(self, settings: object) -> None:
        self._settings = settings

    def __getattr__(self, flag: str) -> Any:
        return getattr(self._settings, flag.removeprefix("--").replace("-", "_"))
