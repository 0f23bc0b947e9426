"""What can go wrong and be mended by the person who asked."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any


class UsageError(ValueError):
    """A wrong value from the user: the message says what came, what is allowed, the way out.

    The command line prints it as one line and exits with code 2.
    """


class UnknownLabelError(UsageError, IndexError):
    """A label that is no class; an ``IndexError`` too, as torch's own losses raise of it."""


class UnsupportedStudentError(TypeError):
    """A student or optimiser that a method cannot treat; the message names the repair."""


class InexactWindowError(ValueError):
    """Steps that could not be undone well enough to be looked back over.

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
    """An optional dependency is not installed; the message names the extra that brings it."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(
            f"{module} is not installed. Install it with: pip install 'tutelage[{extra}]'"
        )


def require_module(module: str, extra: str) -> None:
    """Refuse to go on without an optional dependency; imports nothing.

    Args:
        module: Its name.
        extra: What brings it.

    Raises:
        MissingExtraError: If it is not installed.
    """
    if find_spec(module) is None:
        raise MissingExtraError(module, extra)


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Finish a sentence about an unknown name: the nearest allowed one, then all of them.

    Args:
        name: What came.
        allowed: The names that exist.

    Returns:
        ``"Did you mean 'x'? Allowed: a, b, x."``; without the question where nothing is near.
    """
    names = list(allowed)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    question = f"Did you mean '{close[0]}'? " if close else ""
    return f"{question}Allowed: {', '.join(names)}."
