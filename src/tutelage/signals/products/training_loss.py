"""The training loss as a function of student and teacher parameters."""

from collections.abc import Callable

import torch
from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.functional.replay_context import detach
from tutelage.teacher import weights_attached
from tutelage.types import Params, Step, StudentState

Loss = Callable[[Params, Params], Tensor]


def loss_function(
    problem: BilevelProblem, state: StudentState, phi: Params, step: Step
) -> tuple[Loss, Params]:
    """The training loss near a student, with fixed inputs of ``weigh``.

    Weights do not see the student move unless they are attached, as in the student's own
    gradient; they do see what the teacher prepared for this step.
    """
    with torch.no_grad():
        here, buffers = problem.observe(state, problem.prepare(phi, step.batch), step)
    fixed = detach(here)

    def loss(theta: Params, phi: Params) -> Tensor:
        prepared = problem.prepare(phi, step.batch)
        observation, _ = problem.observe(
            state._replace(params=state.params | theta), prepared, step
        )
        visible = (
            observation
            if weights_attached(problem.teacher)
            else problem.teacher_observation(state, prepared, step, fixed)
        )
        losses = problem.row_losses(phi, prepared, observation, step.batch.seed)
        weights = problem.weights(phi, prepared, visible, step.batch.seed, attached=True)
        return problem.reduce(losses, weights, prepared)

    return loss, buffers
