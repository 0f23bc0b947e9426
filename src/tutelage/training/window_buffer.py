"""The buffer of real steps from which a signal's window is made."""

from dataclasses import dataclass, field

from tutelage.functional.student import StudentView
from tutelage.signals import Signal
from tutelage.types import Params, Step, StepObservation, StudentState, Window

Pending = tuple[Window, Params]
"""a window whose held-out loss is that of the next step, and the teacher's parameters"""


@dataclass
class WindowBuffer:
    """The steps since the last estimate."""

    start: StudentState | None = None
    """the student before the first step, where the signal needs it"""
    sample: StudentState | None = None
    """some of it, where the signal reconstructs the rest"""
    steps: list[Step] = field(default_factory=list)

    def begin(self, signal: Signal, student: StudentView) -> None:
        """Forget earlier steps, and copy what the signal needs of the student."""
        self.steps = []
        self.start, self.sample = signal.copy_start(student), signal.sample_start(student)

    def extend_start(self, step: Step, student: StudentView) -> None:
        """Add parameters to the start that the optimiser did not hold then."""
        if self.start is not None:
            self.start = student.completed(self.start, step.settings.keys())

    def take_window(self, student: StudentView, observed: StepObservation | None) -> Window:
        """Make a window of the steps, and clear the buffer."""
        moved = {name for step in self.steps for name in step.settings}
        end = student.completed(student.state(), moved)
        window = Window(self.start, tuple(self.steps), end, observed, sample=self.sample)
        self.clear()
        return window

    def clear(self) -> None:
        """Forget the steps."""
        self.start, self.sample, self.steps = None, None, []
