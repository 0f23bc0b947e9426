"""Protocols of products.

For a training step with loss L(theta, phi) and a direction v in the student's parameters,
``H v = d2L/dtheta dtheta . v`` and ``M v = d2L/dphi dtheta . v``. Directions and ``H v`` are
keyed like the student's parameters, ``M v`` like the teacher's. A missing key counts as zero.
"""

from typing import Protocol, runtime_checkable

from tutelage.bilevel import BilevelProblem
from tutelage.types import Params, Step, StudentState


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


@runtime_checkable
class Product(Protocol):
    """A method to compute products."""

    def linearise(
        self, problem: BilevelProblem, state: StudentState, teacher: Params, step: Step
    ) -> Linearised:
        """The gradient of a step from a student, the teacher's parameters requiring grad."""
        ...

    def mixed(
        self,
        problem: BilevelProblem,
        state: StudentState,
        teacher: Params,
        step: Step,
        v: Params,
    ) -> Params:
        """``M v`` alone, which may be cheaper."""
        return self.linearise(problem, state, teacher, step).mixed(v)
