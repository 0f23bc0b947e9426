"""The steps that a signal needs as plain values, for a checkpoint."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from tutelage.functional.portable_state import Rename, names_in, plain_names, renamed
from tutelage.functional.student import StudentView
from tutelage.functional.trees import moved_to
from tutelage.training.window_buffer import Pending, WindowBuffer
from tutelage.types import Batch, Progress, Step, StudentState, Window


def steps_to_dict(
    buffer: WindowBuffer, pending: Pending | None, student: nn.Module
) -> dict[str, Any]:
    """The steps of a window and one that waits for its held-out loss, as plain values.

    Under the names that the student's parameters have before it is compiled or wrapped.
    """
    waiting: list[Any] = []
    if pending is not None:
        window, teacher = pending
        assert window.start is not None
        waiting = [list(window.start), _step_to_dict(window.steps[-1]), teacher]
    plain = {
        "start": [] if buffer.start is None else list(buffer.start),
        "sample": [] if buffer.sample is None else list(buffer.sample),
        "window": [_step_to_dict(step) for step in buffer.steps],
        "pending": waiting,
    }
    return _renamed_steps(plain, plain_names(student))


def steps_from_dict(
    state: Mapping[str, Any], student: StudentView
) -> tuple[WindowBuffer, Pending | None]:
    """The inverse of ``steps_to_dict``; the step that waits has lost its observation."""
    plain, device = _renamed_steps(state, names_in(student.module)), student.device
    start, sample = (
        _state_from_list(plain[k], device) if plain[k] else None for k in ("start", "sample")
    )
    steps = [_step_from_dict(step, device) for step in plain["window"]]
    buffer = WindowBuffer(start, sample, steps)
    if not plain["pending"]:
        return buffer, None
    before, step, teacher = plain["pending"]
    step = _step_from_dict(step, device)
    window = Window(_state_from_list(before, device), (step,), student.state())
    return buffer, (window, moved_to(device, teacher))


def _step_to_dict(step: Step) -> dict[str, Any]:
    """A step as plain values."""
    settings = {name: dict(own) for name, own in step.settings.items()}
    *numbers, memory = step.progress
    progress = [*numbers, dict(memory)]
    *rows, buffers = step.batch
    kept = None if buffers is None else dict(buffers)
    return {"batch": [*rows, kept], "progress": progress, "settings": settings}


def _step_from_dict(plain: Mapping[str, Any], device: torch.device) -> Step:
    """The inverse of ``_step_to_dict``."""
    inputs, targets, ids, *drawn = plain["batch"]
    batch = Batch(inputs.to(device), targets.to(device), ids.to(device), *drawn)
    if batch.teacher_buffers is not None:
        buffers = moved_to(device, dict(batch.teacher_buffers))
        batch = batch._replace(teacher_buffers=buffers)
    *numbers, memory = plain["progress"]
    progress = Progress(*numbers)._replace(memory=moved_to(device, memory))
    return Step(batch, progress, plain["settings"])


def _state_from_list(plain: Sequence[Any], device: torch.device) -> StudentState:
    """A student state from a list."""
    params, buffers, slots = plain
    kept = {k: x if k == "step" else moved_to(device, x) for k, x in slots.items()}
    return StudentState(moved_to(device, params), moved_to(device, buffers), kept)


def _renamed_steps(state: Mapping[str, Any], rename: Rename) -> dict[str, Any]:
    """The state of a window buffer under other parameter names."""
    waiting = state["pending"]
    starts = {name: state.get(name, []) for name in ("start", "sample")}  # older ones lack it
    return {
        **{k: _renamed_state(own, rename) if own else own for k, own in starts.items()},
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
