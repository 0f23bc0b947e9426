"""``Signal``, the base class of signals, and what some of them have beside it."""

from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol, runtime_checkable

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.differentiable import require_hessian
from tutelage.functional.student import StudentView
from tutelage.functional.trees import plus
from tutelage.types import Batch, Estimate, HeldOutLoss, Params, Step, StudentState, Window

EvaluateOn = Literal["held-out", "next", "plain"]
"""the loss that a step is to lower: of a held-out batch; of the next training step, whose
gradient is computed anyway; the same, with all other steps taken without the teacher"""
CHECK_EVERY = 8
"""``Signal.check_every``, where a signal does not say otherwise"""


class Signal:
    """Base class of signals: estimates of the held-out loss's gradient in the teacher.

    A tutor calls ``check`` once, ``copy_start`` and ``sample_start`` before the first step of
    a window, the signal itself after the last one, and ``combine`` before a teacher step.

    Attributes:
        steps: The number of student steps in a window.
        evaluate_on: Which loss is the held-out loss.
        full_precision: Whether the states of a window in half precision are given in float32.
    """

    steps: int
    evaluate_on: EvaluateOn = "held-out"
    full_precision: ClassVar[bool] = True

    @property
    def check_every(self) -> int:
        """Windows from one check that costs a pass to the next; the first of a run has one."""
        return CHECK_EVERY

    @property
    def takes_tentative_step(self) -> bool:
        """Whether the step is tentative, and taken with the updated teacher's weights."""
        return False

    def check(self, problem: BilevelProblem) -> None:
        """Raises ``ValueError`` where the signal does not work with a problem.

        Args:
            problem: The student learning under the teacher.
        """

    def copy_start(self, student: StudentView) -> StudentState | None:
        """Copies the student before a window, for ``Window.start``.

        Args:
            student: The student.

        Returns:
            By default all of it; None where the signal does not need it.
        """
        return student.snapshot()

    def sample_start(self, student: StudentView) -> StudentState | None:  # noqa: ARG002 - a hook
        """Copies some of the student before a window, for ``Window.sample``.

        Args:
            student: The student.

        Returns:
            By default None; some entries where the signal reconstructs the start.
        """
        return None

    def __call__(
        self, problem: BilevelProblem, teacher_params: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate the hypergradient; by default by ``estimate_run`` from the window's start.

        Args:
            problem: The student learning under the teacher.
            teacher_params: The teacher's parameters, requiring grad.
            window: The steps to differentiate through.
            held_out: The batch of the held-out loss at the window's end.

        Returns:
            The gradient of the held-out loss with respect to ``teacher_params``.

        Raises:
            NotImplementedError: By default, of a signal that is no ``TrajectorySignal``.
        """
        if not isinstance(self, TrajectorySignal):
            raise NotImplementedError
        assert window.start is not None
        estimate, end = self.estimate_run(
            problem, teacher_params, window.start, window.steps, held_out
        )
        return estimate._replace(end=end)

    def combine(
        self,
        problem: BilevelProblem,  # noqa: ARG002 - a hook
        teacher_params: Params,  # noqa: ARG002 - a hook
        estimates: Sequence[Estimate],
    ) -> Params:
        """The gradient for one teacher step.

        Args:
            problem: The student learning under the teacher.
            teacher_params: The teacher's parameters, requiring grad.
            estimates: Of the windows since the last teacher step.

        Returns:
            By default the mean of the estimates.
        """
        total = estimates[0].grad
        for estimate in estimates[1:]:
            total = plus(total, estimate.grad)
        return {k: g / len(estimates) for k, g in total.items()}


class OneStep(Signal):
    """Base class of signals that use the passes of one real step (``Window.observed``)."""

    steps: int = 1
    full_precision: ClassVar[bool] = False

    def recorded_layer(self, problem: BilevelProblem) -> str | None:  # noqa: ARG002 - a hook
        """The one module of the student whose passes are recorded.

        Args:
            problem: The student learning under the teacher.

        Returns:
            By default None: all.
        """
        return None

    def records(self, problem: BilevelProblem) -> bool:  # noqa: ARG002 - a hook
        """Whether to record the step's passes for per-example products.

        Args:
            problem: The student learning under the teacher.

        Returns:
            By default False.
        """
        return False


def gradient_of_updated(problem: BilevelProblem, evaluation: HeldOutLoss, step: Step) -> Params:
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
class TrajectorySignal(Protocol):
    """A signal that can also run all steps of a student itself."""

    def estimate_run(
        self,
        problem: BilevelProblem,
        teacher_params: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
    ) -> tuple[Estimate, StudentState]:
        """Run the steps and estimate the hypergradient of the final student."""
        ...


@runtime_checkable
class InitialGradientSignal(Protocol):
    """A signal that also gives the gradient in the student's initial parameters."""

    def start_gradient(
        self,
        problem: BilevelProblem,
        teacher_params: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
    ) -> tuple[HeldOutLoss, StudentState]:
        """Run the steps and differentiate the final held-out loss in the initial parameters."""
        ...
