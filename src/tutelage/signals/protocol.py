"""What every learning signal offers, and what some offer besides."""

from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol, runtime_checkable

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.types import Batch, Estimate, HeldOutLoss, Params, Step, StudentState, Window


@runtime_checkable
class Signal(Protocol):
    """Estimates how the teacher should change for the student to do better on held-out data."""

    keeps_start: ClassVar[bool]
    """whether it needs a copy of the student from before the window"""

    @property
    def steps(self) -> int:
        """How many student steps an estimate looks back over."""
        ...

    def __call__(
        self, problem: BilevelProblem, teacher: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate the hypergradient.

        Args:
            problem: The student learning under the teacher.
            teacher: Teacher parameters, requiring grad.
            window: The steps to look back over.
            held_out: The batch that judges the student at the window's end.

        Returns:
            The gradient of the held-out loss with respect to ``teacher``.
        """
        ...


Judge = Literal["held-out", "next", "plain"]
"""who judges a step: a held-out batch; the next training step's loss, whose gradient is had
anyway; the same, with every step that is not itself judged taken without the teacher"""


def held_out_gradient(evaluation: HeldOutLoss, step: Step) -> Params:
    """The judging loss's gradient in what a step moved.

    Args:
        verdict: What judges the step.
        step: The step.

    Returns:
        By parameter name.

    Raises:
        UnsupportedStudentError: If a parameter that it moved has been frozen, or taken from the
            optimiser, by the time the next step judged it.
    """
    if missing := [k for k in step.settings if k not in evaluation.student]:
        raise UnsupportedStudentError(
            f"The step that judges the one before has no gradient for {', '.join(missing)}, "
            "which that one moved and which is frozen now, or no longer the optimiser's. Give "
            "judge='held-out', or freeze between two looks of the signal."
        )
    return {k: evaluation.student[k] for k in step.settings}


@runtime_checkable
class OneStep(Protocol):
    """A signal that looks at one real step while it is taken."""

    @property
    def recomputes_step(self) -> bool:
        """Whether the real step is taken with the weights that came of looking ahead of it."""
        ...

    @property
    def judge(self) -> Judge:
        """Who judges the step."""
        ...

    def records(self, problem: BilevelProblem) -> bool:
        """Whether the step's passes are to be recorded, the student being what it now is.

        Args:
            problem: The student learning under the teacher.

        Returns:
            True if so.
        """
        ...


@runtime_checkable
class Undoing(Protocol):
    """A signal that rebuilds the student before the window from the one after it."""

    keeps_entries: ClassVar[bool]
    """whether it compares what it rebuilds with some of the parameters' entries"""


@runtime_checkable
class Combining(Protocol):
    """A signal whose estimates are not simply averaged into one teacher step."""

    def combine(
        self, problem: BilevelProblem, teacher: Params, estimates: Sequence[Estimate]
    ) -> Params:
        """The gradient for one teacher step.

        Args:
            problem: The student learning under the teacher.
            teacher: Teacher parameters, requiring grad.
            estimates: Those since the last one.

        Returns:
            Keyed like the teacher's parameters.
        """
        ...


@runtime_checkable
class WholeRun(Protocol):
    """A signal that can take all of a student's steps itself, from its first one."""

    def estimate_run(
        self,
        problem: BilevelProblem,
        teacher: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
    ) -> tuple[Estimate, StudentState]:
        """Take the steps and estimate the hypergradient of the student they give.

        Args:
            problem: The student learning under the teacher.
            teacher: Teacher parameters, requiring grad.
            start: The student before the first step.
            steps: The steps.
            held_out: The batch that judges the student after them.

        Returns:
            The estimate, and the student at the end.
        """
        ...


@runtime_checkable
class FromStart(Protocol):
    """A signal that can also say how a student should have started."""

    def start_gradient(
        self,
        problem: BilevelProblem,
        teacher: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
    ) -> tuple[HeldOutLoss, StudentState]:
        """Take the steps and differentiate the loss after them back to the student before.

        Args:
            problem: The student learning under the teacher.
            teacher: Teacher parameters, requiring grad; there may be none.
            start: The student before the first step.
            steps: The steps.
            held_out: The batch that judges the student after them.

        Returns:
            The verdict on ``start``, the steps being part of how it is judged, and the student
            at the end.
        """
        ...
