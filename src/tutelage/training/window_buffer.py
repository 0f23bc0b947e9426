"""The buffer of real steps from which a signal's window is made."""

from dataclasses import dataclass, field

from tutelage.functional.student import StudentView
from tutelage.functional.trees import cloned
from tutelage.signals import ReconstructsStart, Signal
from tutelage.signals.drift import entries_of
from tutelage.types import Params, Step, StudentState, Window

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

    def begin(self, signal: Signal, student: StudentView) -> None:
        """Copy what the signal needs of the student before the first step."""
        if signal.keeps_start:
            self.start = student.snapshot()
        if isinstance(signal, ReconstructsStart):
            params, buffers, slots = student.state()
            self.entries, self.buffers = entries_of(params), cloned(buffers)
            self.velocity = entries_of(slots.get("momentum_buffer", {}))

    def extend_start(self, step: Step, student: StudentView) -> None:
        """Add parameters to the start that the optimiser did not hold then."""
        if self.start is not None:
            self.start = student.completed(self.start, step.settings.keys())

    def pop(self, student: StudentView) -> Window:
        """Make a window of the steps, and clear the buffer."""
        moved = {name for step in self.steps for name in step.settings}
        end = student.completed(student.state(), moved)
        window = Window(
            *(self.start, tuple(self.steps), end),
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
