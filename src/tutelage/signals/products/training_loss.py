"""The training loss as a function of student and teacher parameters."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.groups import Processes
from tutelage.distributed.reduce import all_reduce_gradients
from tutelage.functional.differentiable import require_hessian
from tutelage.functional.replay_context import detach
from tutelage.functional.trees import detached, leaves, reached_grad
from tutelage.teacher import weights_attached
from tutelage.types import Params, Step, StudentState

Loss = Callable[[Params, Params], Tensor]


@dataclass(frozen=True)
class LossNearStudent:
    """The training loss near one student, for products without the gradient's graph."""

    loss: Loss
    theta: Params
    teacher_params: Params
    gradient: Params
    """dL/dtheta of what the step moves, for the parameters that the loss reaches"""
    buffers: Params
    """the student's buffers after the step"""
    processes: Processes

    def mixed_and_hessian(self, v: Params) -> tuple[Params, Params]:
        """Both products."""
        raise NotImplementedError

    def mixed(self, v: Params) -> Params:
        """``M v`` alone."""
        return self.mixed_and_hessian(v)[0]

    def hessian(self, v: Params) -> Params:
        """``H v``."""
        return self.mixed_and_hessian(v)[1]


def loss_near(
    problem: BilevelProblem,
    state: StudentState,
    theta: Params,
    teacher_params: Params,
    step: Step,
) -> LossNearStudent:
    """The training loss near a student's parameters, with the step's gradient there."""
    problem.student.require(require_hessian)
    loss, buffers = loss_function(problem, state, teacher_params, step)
    # the gradient of what the step moves; it may depend on what an earlier step moved
    teacher_params, processes = detached(teacher_params), problem.processes
    moved = leaves({k: theta[k] for k in step.settings})
    here = all_reduce_gradients(
        processes, reached_grad(loss(moved, teacher_params), moved), moved
    )
    return LossNearStudent(loss, theta, teacher_params, here, buffers, processes)


def loss_function(
    problem: BilevelProblem, state: StudentState, teacher_params: Params, step: Step
) -> tuple[Loss, Params]:
    """The training loss near a student, with fixed inputs of ``weigh``.

    Weights do not see the student move unless they are attached, as in the student's own
    gradient; they do see what the teacher prepared for this step.
    """
    with torch.no_grad():
        here, buffers = problem.observe(
            state, problem.prepare(teacher_params, step.batch), step
        )
    fixed = detach(here)

    def loss(theta: Params, teacher_params: Params) -> Tensor:
        prepared = problem.prepare(teacher_params, step.batch)
        observation, _ = problem.observe(
            state._replace(params=state.params | theta), prepared, step
        )
        visible = (
            observation
            if weights_attached(problem.teacher)
            else problem.teacher_observation(state, prepared, step, fixed)
        )
        losses = problem.row_losses(teacher_params, prepared, observation, step.batch.seed)
        weights = problem.weights(
            teacher_params, prepared, visible, step.batch.seed, attached=True
        )
        return problem.reduce(losses, weights, prepared)

    return loss, buffers
