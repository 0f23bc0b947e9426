"""What happens within one real student step, before the optimiser moves."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.fsdp import full_tensor
from tutelage.distributed.wrappers import uncompiled
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.differentiable import eager
from tutelage.functional.module_state import ModuleState
from tutelage.functional.optim import settings_of
from tutelage.functional.replay_context import (
    clone_rows,
    concatenate_observations,
    detach,
    replay_context,
)
from tutelage.functional.student import tapped
from tutelage.functional.trees import detached, leaves
from tutelage.losses.objectives import logits_of, losses_of
from tutelage.per_example import Recorder
from tutelage.precision import FULL, autocast_to
from tutelage.signals.dots import exact_dots
from tutelage.teacher import acts_at_test, implements, is_deep, prepare, taps_of
from tutelage.types import (
    Batch,
    Lesson,
    Observation,
    Params,
    Progress,
    Step,
    StepObservation,
    StudentState,
    Window,
    as_lesson,
)


class Record(NamedTuple):
    """What happened in one student step."""

    loss: Tensor
    """scalar: the loss the student descended"""
    losses: Tensor
    """[L] per row of the lesson, unweighted"""
    weights: Tensor
    """[L] the teacher's weights, before normalisation"""
    ids: Tensor
    """[L] which examples these rows came from"""
    held_out_loss: Tensor | None
    """scalar: the loss that judged a step, where the signal looked at one; else None"""
    left_out: Tensor | None = None
    """scalar: share of the rows' gradients that the step left out, where it may; else None"""


class ForwardPass(NamedTuple):
    """A lesson as the student saw it, attached to the student's own graph."""

    lesson: Lesson
    observation: Observation
    weights: Tensor
    """[L], before normalisation"""
    loss: Tensor
    """scalar: what the student descends"""
    left_out: Tensor | None = None
    """scalar, see ``Record``"""
    teacher_buffers: Params | None = None
    """those that the teacher wrote to when it weighed; None where it only tries to"""
    before: ModuleState | None = None
    """the student before its pass, where the same rows pass again"""


def step_record(forward_pass: ForwardPass, judged: Tensor | None) -> Record:
    """What happened in a step."""
    losses = forward_pass.observation.losses.detach()
    weights = forward_pass.weights.detach().reshape(losses.shape)
    loss, ids = forward_pass.loss.detach(), forward_pass.lesson.ids
    return Record(loss, losses, weights, ids, judged, forward_pass.left_out)


def prepare_lesson(problem: BilevelProblem, batch: Batch) -> Lesson:
    """The lesson of the teacher as it is."""
    with torch.no_grad(), replay_context(batch, batch.seed):
        return prepare(problem.teacher, {}, batch)


def prepare_step(
    problem: BilevelProblem, batch: Batch, progress: Progress, *, keep: bool
) -> tuple[Step, Lesson, Lesson]:
    """A step before its forward pass."""
    if not keep:
        lesson = prepare_lesson(problem, batch)
        return Step(batch, progress, {}), lesson, lesson
    step = Step(clone_rows(batch), progress, {})
    lesson = prepare_lesson(problem, batch)
    if implements(problem.teacher, "prepare"):
        return step, clone_rows(lesson), lesson
    kept = as_lesson(step.batch)._replace(teacher_buffers=lesson.teacher_buffers)
    return step, kept, lesson


def prediction_lesson(problem: BilevelProblem, batch: Batch) -> Lesson:
    """What the student predicts from: a lesson where its teacher acts at test."""
    if not acts_at_test(problem.teacher):
        return as_lesson(batch)
    with torch.no_grad():
        return problem.lesson({}, batch)


def run_forward(
    problem: BilevelProblem,
    student: nn.Module,
    step: Step,
    lesson: Lesson,
    alignments: Tensor | None = None,
    student_lesson: Lesson | None = None,
) -> ForwardPass:
    """The student's own forward pass, through its own hooks and wrappers, and its weights."""
    batch, taps = step.batch, taps_of(problem.teacher)
    inner, parts = problem.student.module, []
    student = uncompiled(student) if taps else student
    for number, part in enumerate(
        problem.micro_batches(lesson if student_lesson is None else student_lesson)
    ):
        seed = problem.local_seed(batch.seed + 1, number)
        aside = eager(student) if taps else nullcontext()  # compiled code has no hooks
        with aside, replay_context(batch, seed), tapped(inner, taps) as features:
            outputs = student(part.inputs)
            losses = losses_of(problem.objective, outputs, part)
        parts.append(Observation(losses, logits_of(outputs), features, step.progress))
    return apply_weights(
        problem, batch, lesson, concatenate_observations(parts)._replace(alignments=alignments)
    )


def gradient_alignments(
    problem: BilevelProblem, lesson: Lesson, step: Step, held_out: Batch
) -> Tensor:
    """How each row's gradient lies to the held-out gradient, at the student as it is."""
    state, params = problem.student.state(), problem.student.params
    device = problem.student.device
    with torch.enable_grad(), autocast_to(FULL, device):
        found = problem.judge(state, {}, held_out).student
        towards = {k: g for k, g in found.items() if params[k].requires_grad}
        return exact_dots(problem, state, lesson, step, towards)


def apply_weights(
    problem: BilevelProblem, batch: Batch, lesson: Lesson, observation: Observation
) -> ForwardPass:
    """The weights that the teacher as it is gives to what was seen."""
    buffers_out: Params = {}
    if not is_deep(problem.teacher):
        with torch.no_grad():
            weights = problem.weights(
                {}, lesson, observation, batch.seed, buffers_out=buffers_out
            )
        loss = problem.reduce(observation.losses, weights, lesson)
        return ForwardPass(lesson, observation, weights, loss, teacher_buffers=buffers_out)
    # the student's gradient goes through the weights, or grades, too
    own = detached(dict(problem.teacher.named_parameters()))
    weights = problem.weights(own, lesson, observation, batch.seed, buffers_out=buffers_out)
    losses = problem.row_losses(own, lesson, observation, batch.seed, buffers_out=buffers_out)
    loss = problem.reduce(losses, weights, lesson)
    return ForwardPass(lesson, observation, weights, loss, teacher_buffers=buffers_out)


def tentative_window(
    problem: BilevelProblem, step: Step, observed: StepObservation, buffers: Params
) -> Window:
    """The window of a step that the optimiser has not taken yet."""
    state = problem.student.state()
    params = problem.student.params
    grads = {k: full_tensor(g) for k in step.settings if (g := params[k].grad) is not None}
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
    """What was seen of a step, from the state before it."""
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


def current_settings(problem: BilevelProblem) -> Mapping[str, Mapping[str, float | bool]]:
    """The optimiser's settings for every parameter that the step will move."""
    params = problem.student.params
    settings = settings_of(problem.student.optimizer, problem.student.names)
    moved = {k: s for k, s in settings.items() if params[k].grad is not None}
    if not moved:
        raise UnsupportedStudentError(
            "The loss reaches no parameter that the optimiser holds. It holds: "
            f"{', '.join(params)}."
        )
    return moved
