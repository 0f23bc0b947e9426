"""The implicit function theorem at a student that is taken to be trained to the end."""

from dataclasses import dataclass, field
from typing import ClassVar

from tutelage.records import Batch, Estimate, Params, Window
from tutelage.signals.products import DoubleBackward, Product
from tutelage.signals.solvers import Solver
from tutelage.task import Task
from tutelage.trees import plus


@dataclass(frozen=True)
class Implicit:
    """``d held_out / d phi = direct - M H^-1 (d held_out / d theta)`` at the window's end.

    H and M are those of the last step's batch at the parameters after it, weight decay included
    in H; one graph serves all products. The direct term is not zero for teachers that act at
    test, such as masks.

    Source: Lorraine et al. 2020; Raghu et al. 2021, algorithm 2 (its equation 4 lacks the minus
    sign).
    """

    solve: Solver
    product: Product = field(default_factory=DoubleBackward)
    steps: int = field(default=1, init=False)
    keeps_start: ClassVar[bool] = False

    def __call__(
        self, task: Task, teacher: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate the hypergradient.

        Args:
            task: The student learning under the teacher.
            teacher: Teacher parameters, requiring grad.
            window: The last step, with the state after it.
            held_out: The batch that judges the student.

        Returns:
            The gradient, exact at an optimum up to the solver's error.
        """
        step = window.steps[-1]
        loss, sought, direct = task.judge(window.end, teacher, held_out)
        linearised = self.product.linearise(task, window.end, teacher, step)
        decay = {k: float(s["weight_decay"]) for k, s in step.settings.items()}

        def matvec(u: Params) -> Params:
            image = linearised.hessian(u)
            return {k: image[k] + decay[k] * u[k] for k in u}

        solved = self.solve(matvec, {k: sought[k] for k in step.settings})
        return Estimate(plus(direct, linearised.mixed(solved), -1.0), loss)
