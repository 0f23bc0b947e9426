"""Type checks around every function of the packages, at a fraction of what jaxtyping's take."""

import contextlib
import dataclasses
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

import jaxtyping
import pytest

_OF_SHAPES = jaxtyping.jaxtyped
CALLS = 20
"""of a function whose types are checked in one test: those of a loop are alike"""
_calls = Counter[int]()
_switches = vars(jaxtyping.config)
"""read at each call of each function, without an attribute's cost"""


def cheaper() -> None:
    """Let jaxtyping's import hook leave to beartype alone what has no shapes in its signature.

    jaxtyping binds the arguments of every call to find which axes are the same, and checks them
    twice. Checks are written at the first call of a function, as most are never called where
    they are on. Where they are off, a function in a function, which every call of the outer one
    makes anew, is left as it is.
    """
    jaxtyping.jaxtyped = _jaxtyped


def count_from_zero() -> None:
    """A test begins: the first calls of every function are checked again."""
    _calls.clear()


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Without the type checks that pytest puts around every function, as users run it."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


def repeated(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Cases of a test whose every parameter has a value that an earlier case of it has.

    Of a product of tables, all but the first case of each value of each table.
    """
    seen: set[tuple[object, str, int]] = set()
    found: set[pytest.Item] = set()
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            values = item.callspec.params.items()
            own = {(item.function, name, id(value)) for name, value in values}
            if own <= seen:
                found.add(item)
            seen |= own
    return found


def _jaxtyped(*, typechecker: Callable[..., Any]) -> Callable[[Any], Any]:
    def decorate(made: Any) -> Any:
        if inspect.isclass(made):
            if dataclasses.is_dataclass(made) and "__init__" in vars(made):
                made.__init__ = decorate(made.__init__)
            return made
        if jaxtyping.config.jaxtyping_disable and "<locals>" in made.__qualname__:
            return made
        if not made.__annotations__:
            return made
        of_shapes = any(map(_needs_jaxtyping, made.__annotations__.values()))
        shaped = functools.partial(_OF_SHAPES, typechecker=typechecker)
        return _checked(made, shaped if of_shapes else typechecker)

    return decorate


def _needs_jaxtyping(annotation: Any) -> bool:
    if isinstance(annotation, list):  # the arguments of a Callable
        return any(map(_needs_jaxtyping, annotation))
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    # jaxtyping passes over names that are not known yet, beartype does not
    return isinstance(annotation, str) or any(map(_needs_jaxtyping, get_args(annotation)))


def _checked(function: Callable[..., Any], check: Callable[..., Any]) -> Callable[..., Any]:
    checked = functools.cache(lambda: check(function))
    code = id(function.__code__)  # shared by all that a function in a function makes

    @functools.wraps(function)
    def as_told(*args: Any, **kwargs: Any) -> Any:
        if _switches["jaxtyping_disable"]:
            return function(*args, **kwargs)
        _calls[code] += 1
        if _calls[code] > CALLS:
            return function(*args, **kwargs)
        return checked()(*args, **kwargs)

    return as_told
