"""Exact products, by the cheapest method."""

from dataclasses import dataclass

from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.per_example.coupling import couples_rows
from tutelage.signals.products.double_backward import DoubleBackward
from tutelage.signals.products.gradient_dots import Alignment
from tutelage.signals.products.row_dots import DotProducts, exact_dots, only_weighs
from tutelage.teacher import is_attached
from tutelage.types import Params, Step, StepObservation, StudentState


@dataclass(frozen=True)
class Automatic(DotProducts):
    """Dot products for ``M v`` where the teacher only weighs, double backward for the rest."""

    def gives_gradient(self, problem: BilevelProblem) -> bool:
        """Whether ``mixed`` computes the step's gradient as well."""
        return is_attached(problem.teacher)

    def records(self, problem: BilevelProblem) -> bool:
        """Whether the dot products can be read from recorded passes."""
        return not is_attached(problem.teacher) and not couples_rows(problem.student.module)

    def dots(
        self,
        problem: BilevelProblem,
        start: StudentState,
        step: Step,
        v: Params,
        observed: StepObservation,
    ) -> Tensor:
        """``<d l_i / d theta, v>`` [L] at a real step, by forward mode."""
        return exact_dots(problem, start, observed.prepared, step, v)

    def mixed(
        self,
        problem: BilevelProblem,
        state: StudentState,
        teacher_params: Params,
        step: Step,
        v: Params,
    ) -> Params:
        """``M v`` alone."""
        if only_weighs(problem, problem.prepare(teacher_params, step.batch)):
            return Alignment().mixed(problem, state, teacher_params, step, v)
        return DoubleBackward().mixed(problem, state, teacher_params, step, v)
