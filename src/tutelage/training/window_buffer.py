"""The real steps that a signal will look back over, kept until it does."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tutelage.functional.student import StudentView
from tutelage.functional.trees import moved_to
from tutelage.signals import Signal, Undoing
from tutelage.signals.drift import entries_of
from tutelage.training.plain_state import (
    state_from_list,
    step_from_dict,
    step_to_dict,
    window_from_list,
    window_to_list,
)
from tutelage.types import HeldOutLoss, Params, Step, StepObservation, StudentState, Window

Waiting = tuple[Window, Params]
"""a window that the next step's loss will judge, and the teacher's parameters as they were"""


@dataclass
class WindowBuffer:
    """What is remembered of the steps taken since the signal last looked."""

    start: StudentState | None = None
    """the student before the first of them, where the signal needs it"""
    entries: Params | None = None
    """some of its parameters', where the signal rebuilds it"""
    steps: list[Step] = field(default_factory=list)
    waiting: Waiting | None = None

    def reach(self, step: Step, student: StudentView) -> None:
        """Add to the window's start what this step is the first to move."""
        if self.start is not None:
            self.start = student.completed(self.start, step.settings.keys())

    def begin(self, signal: Signal, student: StudentView) -> None:
        """Keep what a signal needs of the student before the first step."""
        if signal.keeps_start:
            self.start = student.snapshot()
        if isinstance(signal, Undoing):
            self.entries = entries_of(student.state().params)

    def window(self, student: StudentView, observed: StepObservation | None) -> Window:
        """The steps so far as a window; the trail begins anew."""
        moved = {name for step in self.steps for name in step.settings}
        end = student.completed(student.state(), moved)
        window = Window(self.start, tuple(self.steps), end, observed, entries=self.entries)
        self.forget()
        return window

    def forget(self) -> None:
        """Begin anew."""
        self.start, self.entries, self.steps = None, None, []

    def judged(self, loss: Tensor, gradient: Params) -> Waiting:
        """What waited for the next step, now that this has come; nothing waits any more."""
        assert self.waiting is not None
        (window, teacher), self.waiting = self.waiting, None
        return replace(window, held_out_loss=HeldOutLoss(loss, gradient, {})), teacher

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {
            "start": [] if self.start is None else list(self.start),
            "entries": self.entries,
            "window": [step_to_dict(step) for step in self.steps],
            "pending": [] if self.waiting is None else window_to_list(*self.waiting),
        }

    def load_state_dict(
        self, state: Mapping[str, Any], now: StudentState, device: torch.device
    ) -> None:
        """Go on from a state that ``state_dict`` gave."""
        self.start = state_from_list(state["start"], device) if state["start"] else None
        entries = state["entries"]
        self.entries = None if entries is None else moved_to(device, entries)
        self.steps = [step_from_dict(step, device) for step in state["window"]]
        waiting = state["pending"]
        self.waiting = window_from_list(waiting, now, device) if waiting else None
