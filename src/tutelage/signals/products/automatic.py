"""The exact products, each by its cheapest way."""

from dataclasses import dataclass

from tutelage.bilevel import Task
from tutelage.per_example import couples_rows
from tutelage.signals.products.alignment import Alignment, only_weighs
from tutelage.signals.products.double_backward import DoubleBackward, GradientGraph
from tutelage.teacher import is_deep
from tutelage.types import Params, Step, StudentState


@dataclass(frozen=True)
class Automatic:
    """Dot products for ``M v`` where the teacher only weighs, double backward for the rest."""

    def records(self, task: Task) -> bool:
        """Whether dot products can be read off a real step's own passes, exactly."""
        return not is_deep(task.teacher) and not couples_rows(task.student.module)

    def linearise(
        self, task: Task, state: StudentState, teacher: Params, step: Step
    ) -> GradientGraph:
        """The step's gradient with its graph."""
        return DoubleBackward().linearise(task, state, teacher, step)

    def mixed(
        self, task: Task, state: StudentState, teacher: Params, step: Step, v: Params
    ) -> Params:
        """``M v`` alone."""
        if only_weighs(task, task.lesson(teacher, step.batch)):
            return Alignment().mixed(task, state, teacher, step, v)
        return DoubleBackward().mixed(task, state, teacher, step, v)
