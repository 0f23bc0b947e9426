"""One step ahead: would the student have been better for other weights a step ago?"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch

from tutelage.records import Batch, Estimate, Params, Step, StudentState, Window
from tutelage.signals.products import Automatic, Product
from tutelage.task import Task
from tutelage.trees import leaves, named_grad, plus, reached_grad


@dataclass(frozen=True)
class Lookahead:
    """The hypergradient through the student's last step: ``Unrolled(steps=1)`` made cheap.

    ``d held_out / d phi = M v`` with ``v`` the held-out gradient at the new parameters, carried
    back through the update rule to the step's gradient (``v = -eta grad`` for plain SGD). The
    student's real step is the look-ahead; the changed teacher serves the next one.

    Source: Shu et al. 2019, Meta-Weight-Net; Ren et al. 2018, Learning to Reweight Examples.

    Note: it sees the student's own optimiser, momentum included, where the papers' virtual step
    is plain SGD; the two differ in where the held-out gradient is taken.
    """

    product: Product = field(default_factory=Automatic)
    steps: int = field(default=1, init=False)
    keeps_start: ClassVar[bool] = True

    def __call__(
        self, task: Task, teacher: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate the hypergradient.

        Args:
            task: The student learning under the teacher.
            teacher: Teacher parameters, requiring grad.
            window: The last step, with the state before it.
            held_out: The batch that judges the student after it.

        Returns:
            The exact gradient of the held-out loss, the state before the step held fixed.
        """
        assert window.start is not None
        step = window.steps[-1]
        end = window.end._replace(params=leaves(window.end.params))
        loss = task.held_out_loss(end, teacher, held_out)
        direct = named_grad(loss, {f"teacher/{k}": p for k, p in teacher.items()} | end.params)
        v = through_update(
            task, window.start, teacher, step, {k: direct[k] for k in end.params}
        )
        mixed = self.product.mixed(task, window.start, teacher, step, v)
        total = plus({k: direct[f"teacher/{k}"] for k in teacher}, mixed)
        return Estimate(total, loss.detach())


def through_update(
    task: Task, start: StudentState, teacher: Params, step: Step, adjoint: Params
) -> Params:
    """Carry an adjoint of the new parameters back to the step's gradient.

    Args:
        task: The student learning under the teacher.
        start: The student before the step.
        teacher: Teacher parameters.
        step: The step.
        adjoint: Gradient with respect to the parameters after the step.

    Returns:
        The gradient with respect to the step's gradient, for the parameters that it moved.
    """
    if task.rule.linear:  # the derivative does not depend on the gradient's value
        grads = {k: torch.zeros_like(start.params[k]) for k in step.settings}
    else:
        theta = leaves(start.params)
        loss, _ = task.taught_loss(start._replace(params=theta), teacher, step)
        grads = reached_grad(loss, {k: theta[k] for k in step.settings})
    grads = leaves(grads)
    after = task.rule.update(start, grads, step.settings).params
    outputs = [after[k] for k in grads]
    back = torch.autograd.grad(outputs, list(grads.values()), [adjoint[k] for k in grads])
    return dict(zip(grads, back, strict=True))
