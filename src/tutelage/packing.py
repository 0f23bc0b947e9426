"""Steps and windows as plain values, for a checkpoint."""

from collections.abc import Mapping
from typing import Any

from tutelage.records import Batch, Params, Progress, Step, StudentState, Window


def packed(step: Step) -> dict[str, Any]:
    """A step as ``torch.load`` reads it safely.

    Args:
        step: The step.

    Returns:
        Plain dictionaries, lists, numbers and tensors.
    """
    settings = {name: dict(own) for name, own in step.settings.items()}
    return {"batch": list(step.batch), "progress": list(step.progress), "settings": settings}


def unpacked(plain: Mapping[str, Any]) -> Step:
    """The step that ``packed`` gave.

    Args:
        plain: That.

    Returns:
        The step.
    """
    return Step(Batch(*plain["batch"]), Progress(*plain["progress"]), plain["settings"])


def packed_window(window: Window, teacher: Params) -> list[Any]:
    """A window of one step that waits for its judge.

    Args:
        window: The window, with its start.
        teacher: Teacher parameters as they were.

    Returns:
        Plain lists, dictionaries and tensors.
    """
    assert window.start is not None
    return [list(window.start), packed(window.steps[-1]), teacher]


def unpacked_window(plain: list[Any], end: StudentState) -> tuple[Window, Params]:
    """The window that ``packed_window`` gave; what was seen of its step is left out.

    Args:
        plain: That.
        end: The student now.

    Returns:
        The window, and teacher parameters as they were.
    """
    start, step, teacher = plain
    return Window(StudentState(*start), (unpacked(step),), end), teacher
