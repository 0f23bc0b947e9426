"""Errors about operators without second or forward-mode derivatives."""

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from torch import Tensor

from tutelage.errors import UnsupportedStudentError

_MISSING = (
    re.compile(r"derivative for (?:aten::)?'?([\w:]+)'? is not implemented"),
    re.compile(r"forward AD with (?:aten::)?(\w+)"),
)
_FUNCTIONS = ("jvp function for custom autograd.Function", "once_differentiable")
_SECOND = (
    "Take products by FiniteDifference(), which needs first derivatives alone, as in "
    "Replayed(steps, product=FiniteDifference()), or write the operator by others."
)


def missing_operator(error: RuntimeError) -> str | None:
    """The operator that an error of torch names as not differentiable."""
    text = str(error)
    if any(words in text for words in _FUNCTIONS):
        return "a custom autograd.Function"
    found = (pattern.search(text) for pattern in _MISSING)
    return next((match[1] for match in found if match), None)


@contextmanager
def named_operators(derivative: str, repair: str) -> Iterator[None]:
    """Turn torch's errors about missing derivatives into ``UnsupportedStudentError``."""
    try:
        yield
    except RuntimeError as error:
        operator = missing_operator(error)
        if operator is None:
            raise
        raise UnsupportedStudentError(
            f"Torch has no formula of {operator} for a {derivative}. {repair}"
        ) from error


def second_derivatives() -> AbstractContextManager[None]:
    """``named_operators`` for second derivatives."""
    return named_operators("second derivative", _SECOND)


def is_once_differentiable(gradients: Iterable[Tensor]) -> bool:
    """Whether a part of a gradient's graph is marked ``once_differentiable``.

    So it is with an ``autograd.Function`` whose ``backward`` is marked
    ``once_differentiable``: an error follows only where all of the path leads through it.
    """
    waiting = [g.grad_fn for g in gradients if g.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if type(node).__name__ == "Error":
            return True
        after = {n for n, _ in node.next_functions if n is not None} - seen
        seen |= after
        waiting.extend(after)
    return False


def require_second_derivatives(gradients: Iterable[Tensor]) -> None:
    """Raise if a part of a gradient's graph cannot be differentiated."""
    if is_once_differentiable(gradients):
        raise UnsupportedStudentError(
            "A custom autograd.Function in the student, the teacher or the objective has a "
            f"backward marked once_differentiable, so no second derivative. {_SECOND}"
        )
