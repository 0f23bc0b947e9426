"""The buffer of real steps from which a signal's window is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tutelage.functional.student import StudentView
from tutelage.functional.trees import cloned, moved_to
from tutelage.signals import ReconstructsStart, Signal
from tutelage.signals.drift import entries_of
from tutelage.training.plain_state import (
    state_from_list,
    step_from_dict,
    step_to_dict,
    window_from_list,
    window_to_list,
)
from tutelage.types import HeldOutLoss, Params, Step, StepObservation, StudentState, Window

Pending = tuple[Window, Params]
"""a window whose held-out loss is that of the next step, and the teacher's parameters"""


@dataclass
class WindowBuffer:
    """The steps since the last estimate."""

    start: StudentState | None = None
    """the student before the first step, where the signal needs it"""
    entries: Params | None = None
    """some entries of its parameters, where the signal rebuilds it"""
    velocity: Params | None = None
    """the same of its momentum buffers"""
    buffers: Params | None = None
    """its buffers, where the signal rebuilds the rest"""
    steps: list[Step] = field(default_factory=list)
    pending: Pending | None = None

    def extend_start(self, step: Step, student: StudentView) -> None:
        """Add parameters to the start that the optimiser did not hold then."""
        if self.start is not None:
            self.start = student.completed(self.start, step.settings.keys())

    def begin(self, signal: Signal, student: StudentView) -> None:
        """Copy what the signal needs of the student before the first step."""
        if signal.keeps_start:
            self.start = student.snapshot()
        if isinstance(signal, ReconstructsStart):
            params, buffers, slots = student.state()
            self.entries, self.buffers = entries_of(params), cloned(buffers)
            self.velocity = entries_of(slots.get("momentum_buffer", {}))

    def pop(self, student: StudentView, observed: StepObservation | None) -> Window:
        """Make a window of the steps, and clear the buffer."""
        moved = {name for step in self.steps for name in step.settings}
        end = student.completed(student.state(), moved)
        window = Window(
            *(self.start, tuple(self.steps), end, observed),
            entries=self.entries,
            velocity=self.velocity,
            buffers=self.buffers,
        )
        self.clear()
        return window

    def clear(self) -> None:
        """Forget the steps."""
        self.start, self.entries, self.velocity, self.buffers = None, None, None, None
        self.steps = []

    def pop_pending(self, loss: Tensor, gradient: Params) -> Pending:
        """The pending window, its held-out loss given by the step after it."""
        assert self.pending is not None
        (window, teacher), self.pending = self.pending, None
        return replace(window, held_out_loss=HeldOutLoss(loss, gradient, {})), teacher

    def state_dict(self) -> dict[str, Any]:
        """The buffer as plain values."""
        return {
            "start": [] if self.start is None else list(self.start),
            "entries": self.entries,
            "velocity": self.velocity,
            "buffers": self.buffers,
            "window": [step_to_dict(step) for step in self.steps],
            "pending": [] if self.pending is None else window_to_list(*self.pending),
        }

    def load_state_dict(
        self, state: Mapping[str, Any], now: StudentState, device: torch.device
    ) -> None:
        """Load a state of ``state_dict``."""
        self.start = state_from_list(state["start"], device) if state["start"] else None
        entries = state["entries"]
        self.entries = None if entries is None else moved_to(device, entries)
        # a state of an older version lacks these
        velocity, buffers = state.get("velocity"), state.get("buffers")
        self.velocity = None if velocity is None else moved_to(device, velocity)
        self.buffers = None if buffers is None else moved_to(device, buffers)
        self.steps = [step_from_dict(step, device) for step in state["window"]]
        pending = state["pending"]
        self.pending = window_from_list(pending, now, device) if pending else None
