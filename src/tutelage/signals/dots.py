"""Derivatives of rows at a real step, and its observation recomputed."""

import torch
from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.functional.replay_context import detach
from tutelage.functional.trees import detached
from tutelage.per_example import forward_dots
from tutelage.precision import FULL, autocast_to
from tutelage.signals.products.row_dots import exact_dots
from tutelage.types import Batch, Params, PreparedBatch, Step, StepObservation, StudentState


def gradient_alignments(
    problem: BilevelProblem, prepared: PreparedBatch, step: Step, held_out: Batch
) -> Tensor:
    """Inner product [L] of each row's gradient with the held-out gradient."""
    state, params = problem.student.state(), problem.student.params
    device = problem.student.device
    with torch.enable_grad(), autocast_to(FULL, device):
        found = problem.held_out_gradients(state, {}, held_out).student
        towards = {k: g for k, g in found.items() if params[k].requires_grad}
        return exact_dots(problem, state, prepared, step, towards)


def weighted_slopes(
    problem: BilevelProblem,
    teacher_params: Params,
    start: StudentState,
    step: Step,
    v: Params,
    prepared: PreparedBatch,
) -> tuple[Tensor, Tensor]:
    """Derivatives along v of the rows' losses and weights."""
    teacher_params = detached(teacher_params)

    def values(params: Params) -> Tensor:
        moved = start._replace(params=start.params | params)
        observation, _ = problem.observe(moved, prepared, step)
        losses = problem.row_losses(teacher_params, prepared, observation, step.batch.seed)
        weights = problem.weights(teacher_params, prepared, observation, step.batch.seed)
        return torch.cat([losses, weights.reshape(losses.shape).to(losses.dtype)])

    losses, weights = forward_dots(values, start.params, v).chunk(2)
    return losses, weights


def observe_step(
    problem: BilevelProblem, teacher_params: Params, start: StudentState, step: Step
) -> StepObservation:
    """Recompute the observation of a step from the state before it."""
    with torch.no_grad():
        prepared = problem.prepare(detached(teacher_params), step.batch)
        observation, _ = problem.observe(start, prepared, step)
    return StepObservation(prepared, detach(observation), None)
