"""Windows of a single real step, for signals that use its own forward and backward pass."""

import torch

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.fsdp import full_tensor
from tutelage.functional.optim import dense
from tutelage.functional.replay_context import detach
from tutelage.functional.trees import leaves
from tutelage.per_example import Recorder
from tutelage.types import Params, Step, StepObservation, StudentState, Window


def tentative_window(
    problem: BilevelProblem, step: Step, observed: StepObservation, buffers: Params
) -> Window:
    """The window of a step before ``optimizer.step()``, its end by the optimiser's rule."""
    state = problem.student.state()
    params = problem.student.params
    grads = {
        k: full_tensor(dense(g)) for k in step.settings if (g := params[k].grad) is not None
    }
    with torch.no_grad():
        end = problem.rule.update(state, grads, step.settings)
    start = state._replace(buffers=buffers)
    return Window(start, (step,), end, observed, gradient=grads)


def recompute_step(
    problem: BilevelProblem,
    recorder: Recorder,
    teacher: Params,
    start: StudentState,
    step: Step,
) -> StepObservation:
    """Run a past step once more, recorded, from the state before it."""
    theta = leaves(start.params)
    with torch.no_grad():
        lesson = problem.lesson(teacher, step.batch)
    with recorder.record(len(lesson.ids), theta, verified=True) as recorded:
        observation, _ = problem.observe(start._replace(params=theta), lesson, step)
        recorded.verify(observation.losses)
        weights = problem.weights(teacher, lesson, observation, step.batch.seed)
        loss = problem.reduce(observation.losses, weights, lesson)
        torch.autograd.grad(loss, list(theta.values()), allow_unused=True)
    return StepObservation(lesson, detach(observation), recorded)
