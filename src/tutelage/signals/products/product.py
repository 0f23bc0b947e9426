"""``Product``, the base class of products, and the protocol of what it gives.

For a training step with loss L(theta, phi) and a direction v in the student's parameters,
``H v = d2L/dtheta dtheta . v`` and ``M v = d2L/dphi dtheta . v``. Directions and ``H v`` are
keyed like the student's parameters, ``M v`` like the teacher's. A missing key counts as zero.
"""

from typing import Protocol, runtime_checkable

from tutelage.bilevel import BilevelProblem
from tutelage.types import Params, Step, StepObservation, StudentState


@runtime_checkable
class Linearised(Protocol):
    """The gradient of a training step, ready for products."""

    @property
    def gradient(self) -> Params:
        """dL/dtheta, detached, for the parameters that the loss reaches."""
        ...

    @property
    def buffers(self) -> Params:
        """The student's buffers after the step."""
        ...

    def mixed_and_hessian(self, v: Params) -> tuple[Params, Params]:
        """``M v`` and ``H v``."""
        ...

    def mixed(self, v: Params) -> Params:
        """``M v`` alone, which may be cheaper."""
        ...

    def hessian(self, v: Params) -> Params:
        """``H v`` alone."""
        ...


class Product:
    """Base class of products: a method to compute them."""

    @property
    def by_differences(self) -> bool:
        """Whether ``M v`` is a difference of values, which detached paths change, too."""
        return False

    def check(self, problem: BilevelProblem) -> None:
        """Raise ``ValueError`` where the method does not work with a problem."""

    def gives_gradient(self, problem: BilevelProblem) -> bool:  # noqa: ARG002 - a hook
        """Whether ``mixed`` computes the step's gradient as well."""
        return True

    def records(self, problem: BilevelProblem) -> bool:  # noqa: ARG002 - a hook
        """Whether ``mixed_of_step`` reads recorded passes."""
        return False

    def linearise(
        self, problem: BilevelProblem, state: StudentState, teacher_params: Params, step: Step
    ) -> Linearised:
        """The gradient of a step from a student, the teacher's parameters requiring grad."""
        raise NotImplementedError

    def mixed(
        self,
        problem: BilevelProblem,
        state: StudentState,
        teacher_params: Params,
        step: Step,
        v: Params,
    ) -> Params:
        """``M v`` alone, which may be cheaper."""
        return self.linearise(problem, state, teacher_params, step).mixed(v)

    def mixed_of_step(
        self,
        problem: BilevelProblem,
        start: StudentState,
        teacher_params: Params,
        step: Step,
        v: Params,
        observed: StepObservation | None,  # noqa: ARG002 - a hook
    ) -> Params:
        """``M v`` of a real step, from its own passes where the method reads them."""
        return self.mixed(problem, start, teacher_params, step, v)
