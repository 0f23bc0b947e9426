"""Settings by their flags, so that messages name what is typed."""

import dataclasses
from collections.abc import Collection, Sequence
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


def flags_of_several_values(*classes: type[Any]) -> set[str]:
    """The flags of the fields that hold a tuple."""
    fields = [field for cls in classes for field in dataclasses.fields(cls)]
    return {flag(field.name) for field in fields if isinstance(field.default, tuple)}


def with_repeated_joined(words: Sequence[str], flags: Collection[str]) -> list[str]:
    """The words with all values of each of ``flags`` that is given several times behind one.

    tyro keeps the values of the last alone. A value that is given twice counts once.
    """
    values: dict[str, list[str]] = {name: [] for name in _repeated(words) if name in flags}
    others: list[str] = []
    into = others
    for word in words:
        name, equals, value = word.partition("=")
        if _is_flag(word):
            into = values.get(_dashed(name), others)
            if into is not others:
                into += [value] if equals else []
                continue
        into.append(word)
    joined = {name: _last_of_each(given) for name, given in values.items()}
    return [*others, *(word for name, given in joined.items() for word in (name, *given))]


def _last_of_each(values: Sequence[str]) -> list[str]:
    # without repetitions, in the order of the last ones
    return [*dict.fromkeys(reversed(values))][::-1]


def _repeated(words: Sequence[str]) -> list[str]:
    names = [_dashed(word.partition("=")[0]) for word in words if _is_flag(word)]
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]


def _is_flag(word: str) -> bool:
    return word.startswith("--")


def _dashed(name: str) -> str:
    return name.replace("_", "-")


class ByFlag:
    """Settings whose fields are read by their flags, for checks that name what they read."""

    def __init__(self, settings: object) -> None:
        self._settings = settings

    def __getattr__(self, flag: str) -> Any:
        return getattr(self._settings, flag.removeprefix("--").replace("-", "_"))
