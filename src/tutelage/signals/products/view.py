"""The taught loss as a function of both parameters, what the teacher looks at held fixed."""

from collections.abc import Callable

import torch
from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.functional.replay_context import detach
from tutelage.teacher import weighs_deeply
from tutelage.types import Params, Step, StudentState

Loss = Callable[[Params, Params], Tensor]


def loss_function(
    problem: BilevelProblem, state: StudentState, teacher: Params, step: Step
) -> tuple[Loss, Params]:
    """The loss around a student, for products that evaluate it elsewhere.

    Weights do not see the student move unless the teacher is deep, as in the student's own
    gradient; they do see what the teacher prepared for this step.

    Args:
        problem: The student learning under the teacher.
        state: The student before the step.
        teacher: Teacher parameters.
        step: The step.

    Returns:
        From student and teacher parameters to a scalar; the student's buffers after the step.
    """
    with torch.no_grad():
        here, buffers = problem.observe(state, problem.lesson(teacher, step.batch), step)
    fixed = detach(here)

    def loss(theta: Params, phi: Params) -> Tensor:
        lesson = problem.lesson(phi, step.batch)
        observation, _ = problem.observe(
            state._replace(params=state.params | theta), lesson, step
        )
        visible = (
            observation
            if weighs_deeply(problem.teacher)
            else problem.teacher_observation(state, lesson, step, fixed)
        )
        losses = problem.row_losses(phi, lesson, observation, step.batch.seed)
        weights = problem.weights(phi, lesson, visible, step.batch.seed, attached=True)
        return problem.reduce(losses, weights, lesson)

    return loss, buffers
