"""What happens within one real student step, before the optimiser moves."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tutelage.bilevel import Task
from tutelage.distributed.fsdp import whole
from tutelage.distributed.wrappers import uncompiled
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.differentiable import eager
from tutelage.functional.module_state import ModuleState
from tutelage.functional.optim import settings_of
from tutelage.functional.replay_context import as_taken, copied, detach, joined
from tutelage.functional.student import tapped
from tutelage.functional.trees import detached, leaves
from tutelage.losses.objectives import logits_of, losses_of
from tutelage.per_example import Recorder
from tutelage.precision import FULL, autocast_to
from tutelage.signals.dots import exact_dots
from tutelage.teacher import acts_at_test, is_deep, prepare, taps_of
from tutelage.types import (
    Batch,
    Lesson,
    Observation,
    Params,
    Progress,
    Step,
    StudentState,
    Window,
    Witness,
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


class Look(NamedTuple):
    """A lesson as the student saw it, attached to the student's own graph."""

    lesson: Lesson
    seen: Observation
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


def record(sight: Look, judged: Tensor | None) -> Record:
    """What happened in a step."""
    losses = sight.seen.losses.detach()
    weights = sight.weights.detach().reshape(losses.shape)
    loss, ids = sight.loss.detach(), sight.lesson.ids
    return Record(loss, losses, weights, ids, judged, sight.left_out)


def prepared(task: Task, batch: Batch) -> Lesson:
    """The lesson of the teacher as it is."""
    with torch.no_grad(), as_taken(batch, batch.seed):
        return prepare(task.teacher, {}, batch)


def begun(
    task: Task, batch: Batch, progress: Progress, *, keep: bool
) -> tuple[Step, Lesson, Lesson]:
    """A step before its forward pass."""
    if not keep:
        lesson = prepared(task, batch)
        return Step(batch, progress, {}), lesson, lesson
    step = Step(copied(batch), progress, {})
    lesson = prepared(task, batch)
    if hasattr(task.teacher, "prepare"):
        return step, copied(lesson), lesson
    kept = as_lesson(step.batch)._replace(teacher_buffers=lesson.teacher_buffers)
    return step, kept, lesson


def shown(task: Task, batch: Batch) -> Lesson:
    """What the student predicts from: a lesson where its teacher acts at test."""
    if not acts_at_test(task.teacher):
        return as_lesson(batch)
    with torch.no_grad():
        return task.lesson({}, batch)


def look(
    task: Task,
    student: nn.Module,
    step: Step,
    lesson: Lesson,
    alignments: Tensor | None = None,
    given: Lesson | None = None,
) -> Look:
    """The student's own forward pass, through its own hooks and wrappers, and its weights."""
    batch, taps = step.batch, taps_of(task.teacher)
    inner, parts = task.student.module, []
    student = uncompiled(student) if taps else student
    for number, part in enumerate(task.parts(lesson if given is None else given)):
        seed = task.own(batch.seed + 1, number)
        aside = eager(student) if taps else nullcontext()  # compiled code has no hooks
        with aside, as_taken(batch, seed), tapped(inner, taps) as features:
            outputs = student(part.inputs)
            losses = losses_of(task.objective, outputs, part)
        parts.append(Observation(losses, logits_of(outputs), features, step.progress))
    return weighed(task, batch, lesson, joined(parts)._replace(alignments=alignments))


def alignments_with(task: Task, lesson: Lesson, step: Step, held_out: Batch) -> Tensor:
    """How each row's gradient lies to the held-out gradient, at the student as it is."""
    state, params = task.student.state(), task.student.params
    device = task.student.device
    with torch.enable_grad(), autocast_to(FULL, device):
        found = task.judge(state, {}, held_out).student
        towards = {k: g for k, g in found.items() if params[k].requires_grad}
        return exact_dots(task, state, lesson, step, towards)


def weighed(task: Task, batch: Batch, lesson: Lesson, seen: Observation) -> Look:
    """The weights that the teacher as it is gives to what was seen."""
    renewed: Params = {}
    if not is_deep(task.teacher):
        with torch.no_grad():
            weights = task.weights({}, lesson, seen, batch.seed, renewed=renewed)
        loss = task.reduce(seen.losses, weights, lesson)
        return Look(lesson, seen, weights, loss, teacher_buffers=renewed)
    # the student's gradient goes through the weights, or grades, too
    own = detached(dict(task.teacher.named_parameters()))
    weights = task.weights(own, lesson, seen, batch.seed, renewed=renewed)
    losses = task.descended(own, lesson, seen, batch.seed, renewed=renewed)
    loss = task.reduce(losses, weights, lesson)
    return Look(lesson, seen, weights, loss, teacher_buffers=renewed)


def ahead(task: Task, step: Step, witness: Witness, buffers: Params) -> Window:
    """The window of a step that the optimiser has not taken yet."""
    state = task.student.state()
    params = task.student.params
    grads = {k: whole(g) for k in step.settings if (g := params[k].grad) is not None}
    with torch.no_grad():
        end = task.rule.update(state, grads, step.settings)
    start = state._replace(buffers=buffers)
    return Window(start, (step,), end, witness, gradient=grads)


def look_again(
    task: Task, recorder: Recorder, teacher: Params, start: StudentState, step: Step
) -> Witness:
    """What was seen of a step, from the state before it."""
    theta = leaves(start.params)
    with torch.no_grad():
        lesson = task.lesson(teacher, step.batch)
    with recorder.record(len(lesson.ids), theta, verified=True) as recorded:
        seen, _ = task.observe(start._replace(params=theta), lesson, step)
        recorded.verify(seen.losses)
        weights = task.weights(teacher, lesson, seen, step.batch.seed)
        loss = task.reduce(seen.losses, weights, lesson)
        torch.autograd.grad(loss, list(theta.values()), allow_unused=True)
    return Witness(lesson, detach(seen), recorded)


def settings_now(task: Task) -> Mapping[str, Mapping[str, float | bool]]:
    """The optimiser's settings for every parameter that the step will move."""
    params = task.student.params
    settings = settings_of(task.student.optimizer, task.student.names)
    moved = {k: s for k, s in settings.items() if params[k].grad is not None}
    if not moved:
        raise UnsupportedStudentError(
            "The loss reaches no parameter that the optimiser holds. It holds: "
            f"{', '.join(params)}."
        )
    return moved
