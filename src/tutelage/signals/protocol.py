"""Protocols of signals."""

from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol, runtime_checkable

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.differentiable import require_hessian
from tutelage.types import Batch, Estimate, HeldOutLoss, Params, Step, StudentState, Window


@runtime_checkable
class Signal(Protocol):
    """Estimates the gradient of the held-out loss with respect to the teacher."""

    keeps_start: ClassVar[bool]
    """whether it needs a copy of the student from before the window"""

    @property
    def steps(self) -> int:
        """The number of steps in the signal's window."""
        ...

    def __call__(
        self, problem: BilevelProblem, teacher: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate the hypergradient.

        Args:
            problem: The student learning under the teacher.
            teacher: Teacher parameters, requiring grad.
            window: The steps to differentiate through.
            held_out: The batch of the held-out loss at the window's end.

        Returns:
            The gradient of the held-out loss with respect to ``teacher``.
        """
        ...


EvaluateOn = Literal["held-out", "next", "plain"]
"""the loss that a step is to lower: of a held-out batch; of the next training step, whose
gradient is computed anyway; the same, with all other steps taken without the teacher"""


def held_out_gradient(problem: BilevelProblem, evaluation: HeldOutLoss, step: Step) -> Params:
    """The held-out loss's gradient in the parameters that a step moved."""
    problem.student.require(require_hessian)
    if missing := [k for k in step.settings if k not in evaluation.student]:
        raise UnsupportedStudentError(
            f"The next step's loss has no gradient for {', '.join(missing)}, which the step "
            "moved and which is frozen now, or no longer the optimiser's. Give "
            "evaluate_on='held-out', or freeze between two estimates of the signal."
        )
    return {k: evaluation.student[k] for k in step.settings}


@runtime_checkable
class OneStep(Protocol):
    """A signal that uses the passes of one real step."""

    @property
    def recomputes_step(self) -> bool:
        """Whether the real step is taken with the updated teacher's weights."""
        ...

    @property
    def evaluate_on(self) -> EvaluateOn:
        """Which loss is the held-out loss."""
        ...

    def records(self, problem: BilevelProblem) -> bool:
        """Whether to record the step's passes."""
        ...


@runtime_checkable
class ReconstructsStart(Protocol):
    """A signal that reconstructs the window's start from its end."""

    keeps_entries: ClassVar[bool]
    """whether it compares what it rebuilds with some of the parameters' entries"""


@runtime_checkable
class Combining(Protocol):
    """A signal that combines estimates other than by their mean."""

    def combine(
        self, problem: BilevelProblem, teacher: Params, estimates: Sequence[Estimate]
    ) -> Params:
        """The gradient for one teacher step."""
        ...


@runtime_checkable
class WholeRun(Protocol):
    """A signal that can also run all steps of a student itself."""

    def estimate_run(
        self,
        problem: BilevelProblem,
        teacher: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
    ) -> tuple[Estimate, StudentState]:
        """Run the steps and estimate the hypergradient of the final student."""
        ...


@runtime_checkable
class FromStart(Protocol):
    """A signal that also gives the gradient in the student's initial parameters."""

    def start_gradient(
        self,
        problem: BilevelProblem,
        teacher: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
    ) -> tuple[HeldOutLoss, StudentState]:
        """Run the steps and differentiate the final held-out loss in the initial parameters."""
        ...
