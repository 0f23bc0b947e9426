"""Exact products, by the cheapest method."""

from dataclasses import dataclass

from tutelage.bilevel import BilevelProblem
from tutelage.per_example.coupling import couples_rows
from tutelage.signals.products.double_backward import DoubleBackward, GradientGraph
from tutelage.signals.products.gradient_dots import Alignment, only_weighs
from tutelage.teacher import is_deep
from tutelage.types import Params, Step, StudentState


@dataclass(frozen=True)
class Automatic:
    """Dot products for ``M v`` where the teacher only weighs, double backward for the rest."""

    def records(self, problem: BilevelProblem) -> bool:
        """Whether per-example products can be read from a step's own passes."""
        return not is_deep(problem.teacher) and not couples_rows(problem.student.module)

    def linearise(
        self, problem: BilevelProblem, state: StudentState, teacher: Params, step: Step
    ) -> GradientGraph:
        """The step's gradient with its graph."""
        return DoubleBackward().linearise(problem, state, teacher, step)

    def mixed(
        self,
        problem: BilevelProblem,
        state: StudentState,
        teacher: Params,
        step: Step,
        v: Params,
    ) -> Params:
        """``M v`` alone."""
        if only_weighs(problem, problem.lesson(teacher, step.batch)):
            return Alignment().mixed(problem, state, teacher, step, v)
        return DoubleBackward().mixed(problem, state, teacher, step, v)
