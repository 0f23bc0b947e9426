"""The prepared batch and the forward pass of a real student step."""

from collections.abc import Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.wrappers import uncompiled
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.differentiable import eager
from tutelage.functional.module_state import ModuleState
from tutelage.functional.optim import settings_of
from tutelage.functional.replay_context import (
    clone_rows,
    concatenate_observations,
    replay_context,
)
from tutelage.functional.submodule_outputs import record_outputs
from tutelage.functional.trees import detached
from tutelage.losses.objectives import logits_of, losses_of
from tutelage.teacher import acts_at_test, implements, is_attached, taps_of
from tutelage.teachers.hook_calls import prepare
from tutelage.types import Batch, Observation, PreparedBatch, Progress, Step, as_prepared


class StepResult(NamedTuple):
    """What happened in one student step."""

    loss: Tensor
    """scalar: the weighted training loss"""
    losses: Tensor
    """[L] per row of the prepared batch, unweighted"""
    weights: Tensor
    """[L] the teacher's weights, before normalisation"""
    ids: Tensor
    """[L] ids of the examples"""
    held_out_loss: Tensor | None
    """scalar: the held-out loss, where the signal made an estimate; else None"""
    left_out: Tensor | None = None
    """scalar: share of the rows' gradients that the step left out, where it may; else None"""


class PreparedStep(NamedTuple):
    """A real step before its forward pass."""

    step: Step
    """its batch a copy, if it is kept"""
    prepared: PreparedBatch
    """what the teacher has prepared; a copy, if it is kept"""
    rows: PreparedBatch
    """the tensors that the student is given, which it may write to in place"""


class ForwardPass(NamedTuple):
    """A real step with the student's outputs, weights and loss, attached to the graph."""

    step: Step
    prepared: PreparedBatch
    observation: Observation
    weights: Tensor
    """[L], before normalisation"""
    loss: Tensor
    """scalar: the weighted training loss"""
    left_out: Tensor | None = None
    """scalar, see ``StepResult``"""
    written: Mapping[str, Tensor] = MappingProxyType({})
    """the teacher's buffers that ``weigh`` or ``row_losses`` wrote to"""
    before: ModuleState | None = None
    """the student before its pass, where micro-batches pass again"""

    def with_settings(self, problem: BilevelProblem) -> "ForwardPass":
        """After a backward pass: the optimiser's settings of all that has a gradient."""
        params = problem.student.params
        settings = settings_of(problem.student.optimizer, problem.student.names)
        moved = {k: s for k, s in settings.items() if params[k].grad is not None}
        if not moved:
            raise UnsupportedStudentError(
                "The loss reaches no parameter that the optimiser holds. It holds: "
                f"{', '.join(params)}."
            )
        return self._replace(step=self.step._replace(settings=moved))


def step_result(forward_pass: ForwardPass, held_out_loss: Tensor | None) -> StepResult:
    """The record of a step, detached."""
    losses = forward_pass.observation.losses.detach()
    weights = forward_pass.weights.detach().reshape(losses.shape)
    loss, ids = forward_pass.loss.detach(), forward_pass.prepared.ids
    return StepResult(loss, losses, weights, ids, held_out_loss, forward_pass.left_out)


def prepare_batch(problem: BilevelProblem, batch: Batch) -> PreparedBatch:
    """Call the teacher's ``prepare`` without a graph."""
    with torch.no_grad(), replay_context(batch, batch.seed):
        return prepare(problem.teacher, {}, batch)


def prepare_step(
    problem: BilevelProblem, batch: Batch, progress: Progress, *, keep: bool
) -> PreparedStep:
    """Prepare the batch of a real step, with ``keep`` copies of what the student is given."""
    step = Step(clone_rows(batch) if keep else batch, progress, {})
    rows = prepared = prepare_batch(problem, batch)
    if keep and implements(problem.teacher, "prepare"):
        prepared = clone_rows(rows)
    elif keep:
        prepared = as_prepared(step.batch)._replace(teacher_buffers=rows.teacher_buffers)
    return PreparedStep(step, prepared, rows)


def prediction_batch(problem: BilevelProblem, batch: Batch) -> PreparedBatch:
    """The batch on which a student is evaluated, prepared where the teacher acts at test."""
    if not acts_at_test(problem.teacher):
        return as_prepared(batch)
    with torch.no_grad():
        return problem.prepare({}, batch)


def run_forward(
    problem: BilevelProblem,
    student: nn.Module,
    prepared_step: PreparedStep,
    alignments: Tensor | None = None,
) -> ForwardPass:
    """Run the student itself, with its hooks and wrappers, and weigh the rows."""
    step, prepared, rows = prepared_step
    taps, inner, parts = taps_of(problem.teacher), problem.student.module, []
    student = uncompiled(student) if taps else student
    for number, part in enumerate(problem.micro_batches(rows)):
        seed = problem.local_seed(step.batch.seed + 1, number)
        aside = eager(student) if taps else nullcontext()  # compiled code has no hooks
        with aside, replay_context(step.batch, seed), record_outputs(inner, taps) as features:
            outputs = student(part.inputs)
            losses = losses_of(problem.objective, outputs, part)
        parts.append(Observation(losses, logits_of(outputs), features, step.progress))
    observation = concatenate_observations(parts)._replace(alignments=alignments)
    return apply_weights(problem, step, prepared, observation)


def apply_weights(
    problem: BilevelProblem, step: Step, prepared: PreparedBatch, observation: Observation
) -> ForwardPass:
    """Weigh the rows by the teacher's present parameters and reduce their losses."""
    seed, written = step.batch.seed, {}
    if is_attached(problem.teacher):  # the gradient goes through weights and losses, too
        params = detached(dict(problem.teacher.named_parameters()))
        weights = problem.weights(params, prepared, observation, seed, buffers_out=written)
        losses = problem.row_losses(params, prepared, observation, seed, buffers_out=written)
    else:
        with torch.no_grad():
            weights = problem.weights({}, prepared, observation, seed, buffers_out=written)
        losses = observation.losses
    loss = problem.reduce(losses, weights, prepared)
    return ForwardPass(step, prepared, observation, weights, loss, written=written)
