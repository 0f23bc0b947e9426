"""Errors that the user can mend."""

import re
import sys
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

_IMPORTED = {"pillow": "PIL"}
"""packages that are imported by another name"""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class UsageError(ValueError):
    """A wrong value from the user: the message says what came, what is allowed, the way out.

    The command line prints it as one line and exits with code 2.
    """


class UnknownLabelError(UsageError, IndexError):
    """A label outside the classes; also an ``IndexError``, as torch's losses raise."""


class UnsupportedStudentError(TypeError):
    """A student or optimiser that a method does not support; the message says why."""


class InexactWindowError(ValueError):
    """A window that could not be reversed accurately.

    Args:
        message: What was lost, and the way out.
        estimate: What came of them, NaN for its gradient.
        end: The student after them.
    """

    def __init__(self, message: str, estimate: Any, end: Any) -> None:
        super().__init__(message)
        self.estimate = estimate
        self.end = end


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message names the extra that brings it.

    Raised where an import fails, it says what failed: the module may be there, and something
    that it needs not, or it may be damaged.
    """

    def __init__(self, module: str, extra: str) -> None:
        failed = sys.exception()
        name = failed.name if isinstance(failed, ModuleNotFoundError) else None
        own = (_IMPORTED.get(module, module), module)
        what = f"{module} is not installed. Install it"
        if name is not None and name.partition(".")[0] not in own:
            what = f"{module} cannot be imported without {name}, which is missing. Install both"
        elif isinstance(failed, ImportError) and name is None:
            reason = in_one_line(failed)
            what = f"{module} is there, but cannot be imported ({reason}). Install it again"
        super().__init__(f"{what} with: pip install '.[{extra}]' in a checkout of tutelage")


def require_module(module: str, extra: str) -> None:
    """Raise if an optional dependency of an extra is not installed; imports nothing."""
    if find_spec(module) is None:
        raise MissingExtraError(module, extra)


def nearest(name: str, allowed: Iterable[str]) -> str:
    """The end of a message about an unknown name: ``"Did you mean 'x'? Allowed: a, b, x."``."""
    names = [one_line(known) for known in allowed]
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    question = f"Did you mean '{close[0]}'? " if close else ""
    return f"{question}Allowed: {', '.join(names)}."


def require_known(what: str, name: str, allowed: Collection[str]) -> None:
    """Raise for a name that is not among those allowed; ``what`` begins the message."""
    if name not in allowed:
        raise UsageError(f"{what} '{name}'. {nearest(name, allowed)}")


def one_line(name: str) -> str:
    r"""A name, which may be any text, in one line: control characters are written as ``\n``."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], name)


def in_one_line(error: BaseException) -> str:
    """An error's message without line breaks."""
    return " ".join(str(error).split())


def first_line(error: BaseException) -> str:
    """The first line of an error's message; its type where it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def first_few(items: Iterable[object], most: int = 5) -> str:
    """The first items of a list for a message: ``"a, b, c and 4 more"``."""
    names = [one_line(str(item)) for item in items]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def interrupted(error: BaseException | None) -> bool:
    """Whether an error is a ``KeyboardInterrupt`` or was caused by one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
