"""What a way to take products offers.

For a training step with loss L(theta, phi) and a direction v in the student's parameters,
``H v = d2L/dtheta dtheta . v`` and ``M v = d2L/dphi dtheta . v``.
"""

from typing import Protocol, runtime_checkable

from tutelage.bilevel import BilevelProblem
from tutelage.types import Params, Step, StudentState


@runtime_checkable
class Linearised(Protocol):
    """A training step's gradient at one student, ready for products."""

    @property
    def gradient(self) -> Params:
        """dL/dtheta, detached, for the parameters that the loss reaches."""
        ...

    @property
    def buffers(self) -> Params:
        """The student's buffers after the step."""
        ...

    def mixed_and_hessian(self, v: Params) -> tuple[Params, Params]:
        """Both products; may be asked again.

        Args:
            v: Direction, keyed like the student's parameters; a missing one counts as zero.

        Returns:
            ``M v`` keyed like the teacher, and ``H v`` keyed like the student.
        """
        ...

    def mixed(self, v: Params) -> Params:
        """``M v`` alone, which may be cheaper.

        Args:
            v: Direction, keyed like the student's parameters; a missing one counts as zero.

        Returns:
            Keyed like the teacher.
        """
        ...

    def hessian(self, v: Params) -> Params:
        """``H v`` alone.

        Args:
            v: Direction, keyed like the student's parameters; a missing one counts as zero.

        Returns:
            Keyed like the student.
        """
        ...


@runtime_checkable
class Product(Protocol):
    """A way to take products, passed to a signal as a value."""

    def linearise(
        self, problem: BilevelProblem, state: StudentState, teacher: Params, step: Step
    ) -> Linearised:
        """The step's gradient at a student.

        Args:
            problem: The student learning under the teacher.
            state: The student before the step.
            teacher: Teacher parameters, requiring grad.
            step: The step.

        Returns:
            The gradient, ready for products.
        """
        ...

    def mixed(
        self,
        problem: BilevelProblem,
        state: StudentState,
        teacher: Params,
        step: Step,
        v: Params,
    ) -> Params:
        """``M v`` alone, which may be cheaper.

        Args:
            problem: The student learning under the teacher.
            state: The student before the step.
            teacher: Teacher parameters, requiring grad.
            step: The step.
            v: Direction, keyed like the student's parameters; a missing one counts as zero.

        Returns:
            Keyed like the teacher.
        """
        ...
