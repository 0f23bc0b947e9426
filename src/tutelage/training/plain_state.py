"""Steps and windows as plain values, for a checkpoint."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tutelage.functional.portable_state import Rename, renamed
from tutelage.functional.trees import moved_to
from tutelage.training.window_buffer import WindowBuffer
from tutelage.types import Batch, Params, Progress, Step, StudentState, Window


def step_to_dict(step: Step) -> dict[str, Any]:
    """A step as plain values."""
    settings = {name: dict(own) for name, own in step.settings.items()}
    *numbers, memory = step.progress
    progress = [*numbers, dict(memory)]
    *rows, buffers = step.batch
    kept = None if buffers is None else dict(buffers)
    return {"batch": [*rows, kept], "progress": progress, "settings": settings}


def step_from_dict(plain: Mapping[str, Any], device: torch.device) -> Step:
    """The inverse of ``step_to_dict``."""
    inputs, targets, ids, *drawn = plain["batch"]
    batch = Batch(inputs.to(device), targets.to(device), ids.to(device), *drawn)
    if batch.teacher_buffers is not None:
        buffers = moved_to(device, dict(batch.teacher_buffers))
        batch = batch._replace(teacher_buffers=buffers)
    *numbers, memory = plain["progress"]
    progress = Progress(*numbers)._replace(memory=moved_to(device, memory))
    return Step(batch, progress, plain["settings"])


def state_from_list(plain: Sequence[Any], device: torch.device) -> StudentState:
    """A student state from a list."""
    params, buffers, slots = plain
    kept = {k: x if k == "step" else moved_to(device, x) for k, x in slots.items()}
    return StudentState(moved_to(device, params), moved_to(device, buffers), kept)


def renamed_steps(state: Mapping[str, Any], rename: Rename) -> dict[str, Any]:
    """The state of a window buffer under other parameter names."""
    start, waiting = state["start"], state["pending"]
    # a state of an older version lacks these
    samples = {name: state.get(name) for name in ("entries", "velocity", "buffers")}
    return {
        "start": _renamed_state(start, rename) if start else start,
        **{k: None if own is None else renamed(own, rename) for k, own in samples.items()},
        "window": [_renamed_step(step, rename) for step in state["window"]],
        "pending": [
            _renamed_state(waiting[0], rename),
            _renamed_step(waiting[1], rename),
            *waiting[2:],
        ]
        if waiting
        else waiting,
    }


def _renamed_state(plain: Sequence[Any], rename: Rename) -> list[Any]:
    params, buffers, slots = plain
    memory = {slot: renamed(own, rename) for slot, own in slots.items()}
    return [renamed(params, rename), renamed(buffers, rename), memory]


def _renamed_step(plain: Mapping[str, Any], rename: Rename) -> dict[str, Any]:
    return {**plain, "settings": renamed(plain["settings"], rename)}


def buffer_to_dict(window: WindowBuffer) -> dict[str, Any]:
    """A window buffer as plain values."""
    return {
        "start": [] if window.start is None else list(window.start),
        "entries": window.entries,
        "velocity": window.velocity,
        "buffers": window.buffers,
        "window": [step_to_dict(step) for step in window.steps],
    }


def buffer_from_dict(state: Mapping[str, Any], device: torch.device) -> WindowBuffer:
    """The inverse of ``buffer_to_dict``."""
    start = state_from_list(state["start"], device) if state["start"] else None
    # a state of an older version lacks some of these
    samples = {k: state.get(k) for k in ("entries", "velocity", "buffers")}
    own = {k: None if kept is None else moved_to(device, kept) for k, kept in samples.items()}
    return WindowBuffer(
        start, **own, steps=[step_from_dict(step, device) for step in state["window"]]
    )


def window_to_list(window: Window, teacher: Params) -> list[Any]:
    """A pending window of one step as plain values."""
    assert window.start is not None
    return [list(window.start), step_to_dict(window.steps[-1]), teacher]


def window_from_list(
    plain: list[Any], end: StudentState, device: torch.device
) -> tuple[Window, Params]:
    """The inverse of ``window_to_list``, without the observation."""
    start, step, teacher = plain
    window = Window(state_from_list(start, device), (step_from_dict(step, device),), end)
    return window, moved_to(device, teacher)
