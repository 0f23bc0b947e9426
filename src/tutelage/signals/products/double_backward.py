"""Products by differentiating the gradient's graph."""

from dataclasses import dataclass

import torch

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.groups import Processes
from tutelage.distributed.reduce import all_reduce_gradients
from tutelage.functional.derivatives import second_derivatives
from tutelage.functional.differentiable import require_hessian
from tutelage.functional.recomputation import no_other_recomputation
from tutelage.functional.student import StudentView
from tutelage.functional.trees import detached, leaves, reached_grad
from tutelage.precision import autocast_to
from tutelage.signals.products.product import Product
from tutelage.types import Params, Step, StudentState


@dataclass(frozen=True)
class DoubleBackward(Product):
    """Exact, for every student whose operators have second derivatives; the default.

    One graph serves all products at a student, and holds the memory of a step until it is gone.
    """

    def linearise(
        self, problem: BilevelProblem, state: StudentState, teacher_params: Params, step: Step
    ) -> "GradientGraph":
        """The step's gradient with its graph."""
        theta = leaves(state.params)
        loss, buffers = problem.training_loss(
            state._replace(params=theta), teacher_params, step
        )
        with autocast_to(step.batch.autocast, loss.device):
            attached = reached_grad(loss, theta, create_graph=True)
        problem.student.require_second_derivatives(attached)
        processes, own = problem.processes, detached(attached)
        gradient = all_reduce_gradients(processes, own, {k: theta[k] for k in step.settings})
        student = problem.student
        return GradientGraph(
            attached, theta, teacher_params, buffers, gradient, processes, student
        )


@dataclass(frozen=True)
class GradientGraph:
    """A gradient that can be differentiated in the student's and the teacher's parameters."""

    attached: Params
    theta: Params
    teacher_params: Params
    buffers: Params
    """the student's buffers after the step"""
    gradient: Params
    """dL/dtheta, detached, for the parameters that the loss reaches"""
    processes: Processes
    student: StudentView

    def mixed_and_hessian(self, v: Params) -> tuple[Params, Params]:
        """Both products in one backward pass."""
        self.student.require(require_hessian)
        named = {f"teacher/{k}": p for k, p in self.teacher_params.items()}
        grads = self._backward(v, named | self.theta)
        mixed = {k: grads[f"teacher/{k}"] for k in self.teacher_params}
        return mixed, self.processes.all_reduce_params({k: grads[k] for k in self.theta})

    def mixed(self, v: Params) -> Params:
        """``M v`` alone."""
        return self._backward(v, self.teacher_params)

    def hessian(self, v: Params) -> Params:
        """``H v`` alone."""
        self.student.require(require_hessian)
        return self.processes.all_reduce_params(self._backward(v, self.theta))

    def _backward(self, v: Params, params: Params) -> Params:
        # the gradient of <dL/dtheta, v>; the inner product itself is not worth a graph
        known = [k for k, g in self.attached.items() if k in v and g.requires_grad]
        if not known:
            return {k: torch.zeros_like(p) for k, p in params.items()}
        with no_other_recomputation(), second_derivatives():
            grads = torch.autograd.grad(
                [self.attached[k] for k in known],
                list(params.values()),
                [v[k] for k in known],
                retain_graph=True,
                materialize_grads=True,
            )
        return dict(zip(params, grads, strict=True))
