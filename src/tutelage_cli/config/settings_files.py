"""Settings, which are frozen dataclasses, from a YAML file and to and from plain values.

A field is annotated with int, float, bool, str, Path, a Literal, a nested dataclass, a
``tuple[X, ...]`` of these, or a union such as ``X | None``. Every value must have its
field's type; only a float also takes an int, and the text that YAML makes of ``1e-4``.
"""

import dataclasses
import datetime
import math
import re
import reprlib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from tutelage.errors import UsageError, in_one_line

LONGEST = 1000
"""keys of a mapping, those that merge keys bring in included"""
T = TypeVar("T")

_WRONG = object()
"""in place of a value that was refused"""

MOST_SHOWN = 10
"""mistakes listed in one message"""
_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)e[+-]?\d+", re.ASCII | re.IGNORECASE)
"""a number that YAML 1.1 takes for text: it wants a point and a sign, as in 1.0e-4"""


class _Loader(yaml.SafeLoader):
    # A key given twice is an error; SafeLoader keeps the last and drops the others.
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else key
            if name in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {name!r} is given twice", problem_mark=key.start_mark
                )
            seen.add(name)
        return node

    # Merge keys of merge keys double a mapping with each line, or worse.
    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > LONGEST:
            raise yaml.MarkedYAMLError(
                problem=f"a mapping has over {LONGEST} keys", problem_mark=node.start_mark
            )


def read_yaml(file: Path) -> Any:
    """What a YAML file holds. No tag of it makes more than plain values."""
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise UsageError(
            f"{file}: cannot be read ({error.strerror}); give the path of a YAML file"
        ) from error
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"{file}: not valid YAML{line}: {error.problem}") from error
    # Values such as !!int x or the date 2024-02-31 fail in Python rather than in YAML.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise UsageError(f"{file}: not valid YAML: {in_one_line(error)}") from error


def load_settings(cls: type[T], file: Path) -> T:
    """The settings that a YAML file describes, or every mistake in it at once."""
    document = read_yaml(file)
    if not isinstance(document, Mapping):
        raise UsageError(
            f"{file}: {_shown(document)}, wanted a mapping of settings at the top level, such"
            " as 'lr: 0.1'"
        )
    return _checked(cls, document, None, str(file))


def from_plain(cls: type[T], plain: Mapping[str, Any], source: str = "") -> T:
    """The settings that ``to_plain`` wrote, checked like a file's."""
    return _checked(cls, plain, None, source or cls.__name__)


def changed(base: T, content: Mapping[str, Any], source: str) -> T:
    """Settings with some of their fields replaced, checked like a file's."""
    return _checked(type(base), content, base, source)


def to_plain(settings: Any) -> dict[str, Any]:
    """The fields of some settings as values that JSON knows; ``from_plain`` is the inverse."""
    return {
        field.name: _plain(getattr(settings, field.name))
        for field in dataclasses.fields(settings)
        if field.init
    }


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_plain(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, int | float | str):
        return value
    raise TypeError(f"settings hold {value!r}; to_plain knows no {type(value).__name__}.")


def _checked(cls: type[T], content: Mapping[Any, Any], base: T | None, source: str) -> T:
    problems: list[str] = []
    settings = _dataclass(cls, content, "", base, problems)
    if problems:
        more = len(problems) - MOST_SHOWN
        shown = [*problems[:MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        raise UsageError(f"{source}: {'; '.join(shown)}")
    return settings


def _dataclass(
    cls: type[Any], content: Mapping[Any, Any], path: str, base: Any, problems: list[str]
) -> Any:
    hints = get_type_hints(cls)
    start = {f.name: _start(f, base) for f in dataclasses.fields(cls) if f.init}
    known = _known(content, path, list(start), problems)
    read = {
        name: _value(hints[name], value, f"{path}{name}", start[name], problems)
        for name, value in known.items()
    }
    wrong = [name for name in read if read[name] is _WRONG]
    problems += [
        f"{path}{name}: missing, wanted {_described(hints[name])}"
        for name in start
        if start[name] is _WRONG and name not in read
    ]
    # The previous value replaces a refused one, so that the dataclass can check the other
    # fields at the same time.
    values = start | {name: value for name, value in read.items() if value is not _WRONG}
    if _WRONG in values.values():
        return _WRONG
    try:
        settings = cls(**values)
    except ValueError as error:
        # A complaint that names a refused field is about the value in its place.
        if not any(
            re.search(rf"\b{name.replace('_', '[-_]')}\b", str(error)) for name in wrong
        ):
            problems.append(f"{path[:-1]}: {error}" if path else str(error))
        return _WRONG
    return _WRONG if wrong else settings


def _start(field: dataclasses.Field[Any], base: Any) -> Any:
    if base is not None:
        return getattr(base, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return _WRONG if field.default is dataclasses.MISSING else field.default


def _known(
    content: Mapping[Any, Any], path: str, names: list[str], problems: list[str]
) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for key, value in content.items():
        plain = isinstance(key, str) and len(key) <= 60 and key.isprintable()
        text = key if plain else _shown(key)
        name = text.replace("-", "_")
        if name in known:
            problems.append(f"{path}{text}: given twice, wanted once")
        elif name in names:
            known[name] = value
        else:
            close = get_close_matches(name, names, n=1, cutoff=0.5)
            allowed = ", ".join(path + other for other in names)
            hint = f"did you mean '{path}{close[0]}'?" if close else f"allowed: {allowed}"
            problems.append(f"{path}{text}: unknown key, {hint}")
    return known


def _value(wanted: Any, value: Any, path: str, start: Any, problems: list[str]) -> Any:
    if get_origin(wanted) in {Union, UnionType}:
        return _one_of(wanted, value, path, start, problems)
    if _nests(wanted, value) and isinstance(value, Mapping):
        base = start if isinstance(start, wanted) else None
        return _dataclass(wanted, value, f"{path}.", base, problems)
    if _nests(wanted, value):
        item = get_args(wanted)[0]
        items = tuple(
            _value(item, each, f"{path}[{i}]", None, problems) for i, each in enumerate(value)
        )
        return _WRONG if _WRONG in items else items
    found = _scalar(wanted, value)
    if found is _WRONG:
        scalar = isinstance(value, bool | int | float | datetime.date)
        quotes = " in quotes" if wanted is str and scalar else ""
        problems.append(f"{path}: {_shown(value)}, wanted {_described(wanted)}{quotes}")
    return found


def _one_of(wanted: Any, value: Any, path: str, start: Any, problems: list[str]) -> Any:
    inside: list[str] = []
    for member in get_args(wanted):
        attempt: list[str] = []
        found = _value(member, value, path, start, attempt)
        if not attempt:
            return found
        if _nests(member, value):
            inside = attempt
    problems += inside or [f"{path}: {_shown(value)}, wanted {_described(wanted)}"]
    return _WRONG


def _nests(wanted: Any, value: Any) -> bool:
    if dataclasses.is_dataclass(wanted):
        return isinstance(value, Mapping)
    return get_origin(wanted) is tuple and isinstance(value, list | tuple)


def _scalar(wanted: Any, value: Any) -> Any:
    if wanted is float:
        return _float(value)
    if wanted is Path:
        return Path(value) if isinstance(value, str) else _WRONG
    if get_origin(wanted) is Literal:
        same = [a for a in get_args(wanted) if type(a) is type(value) and a == value]
        return same[0] if same else _WRONG
    return value if type(value) is wanted else _WRONG


def _float(value: Any) -> Any:
    if isinstance(value, str) and _EXPONENT.fullmatch(value):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _WRONG
    try:
        number = float(value)
    except OverflowError:
        return _WRONG
    return _WRONG if math.isnan(number) else number


def _described(wanted: Any) -> str:
    kind, members = get_origin(wanted) or wanted, get_args(wanted)
    if kind in {Union, UnionType}:
        return " or ".join(_described(member) for member in members)
    if kind is tuple:
        return f"list of {_described(members[0])}"
    if kind is Literal:
        return f"one of {', '.join(_shown(member) for member in members)}"
    if dataclasses.is_dataclass(wanted):
        return "mapping"
    if wanted is NoneType:
        return "null"
    return "path" if wanted is Path else wanted.__name__


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return _Brief().repr(value)


class _Brief(reprlib.Repr):
    # Keeps a whole section, or a value that YAML's anchors blew up, out of the message.
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2
        self.maxstring = 60

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to write out an integer of thousands of digits.
        long = x.bit_length() > 200
        return f"an integer of {x.bit_length()} bits" if long else super().repr_int(x, level)
