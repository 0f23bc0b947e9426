"""What happens within one real student step, before the optimiser moves."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from tutelage.alignments import Recorder
from tutelage.objectives import logits_of, losses_of
from tutelage.records import (
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
from tutelage.student import tapped
from tutelage.task import Task, as_taken, detach
from tutelage.teaching import acts_at_test, is_deep, prepare, taps_of
from tutelage.trees import detached, leaves


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


class Look(NamedTuple):
    """A lesson as the student saw it, attached to the student's own graph."""

    lesson: Lesson
    seen: Observation
    weights: Tensor
    """[L], before normalisation"""
    loss: Tensor
    """scalar: what the student descends"""


def record(sight: Look, judged: Tensor | None) -> Record:
    """What happened in a step.

    Args:
        sight: How the student saw its lesson.
        judged: The held-out loss, where the teacher looked.

    Returns:
        The record, detached.
    """
    losses = sight.seen.losses.detach()
    weights = sight.weights.detach().reshape(losses.shape)
    return Record(sight.loss.detach(), losses, weights, sight.lesson.ids, judged)


def prepared(task: Task, batch: Batch) -> Lesson:
    """The lesson of the teacher as it is.

    Args:
        task: The student learning under the teacher.
        batch: The batch, with the step's seed.

    Returns:
        The lesson.
    """
    with torch.no_grad(), as_taken(batch, batch.seed):
        return prepare(task.teacher, {}, batch)


def shown(task: Task, batch: Batch) -> Lesson:
    """What the student predicts from: a lesson where its teacher acts at test.

    Args:
        task: The student learning under the teacher.
        batch: The batch as it came.

    Returns:
        The lesson; the batch itself for a teacher that acts in training alone.
    """
    return prepared(task, batch) if acts_at_test(task.teacher) else as_lesson(batch)


def look(
    task: Task, student: nn.Module, batch: Batch, lesson: Lesson, progress: Progress
) -> Look:
    """The student's own forward pass, through its own hooks and wrappers, and its weights.

    Args:
        task: The student learning under the teacher.
        student: The module as the user gave it, compiled or wrapped.
        batch: The batch, with the step's seed.
        lesson: What was made of it.
        progress: How far the student has come.

    Returns:
        What came of it.
    """
    taps = taps_of(task.teacher)
    module = task.student.module if taps else student
    with as_taken(batch, batch.seed + 1), tapped(module, taps) as features:
        outputs = module(lesson.inputs)
        losses = losses_of(task.objective, outputs, lesson)
    seen = Observation(losses, logits_of(outputs), features, progress)
    return weighed(task, batch, lesson, seen)


def weighed(task: Task, batch: Batch, lesson: Lesson, seen: Observation) -> Look:
    """The weights that the teacher as it is gives to what was seen.

    Args:
        task: The student learning under the teacher.
        batch: The batch, with the step's seed.
        lesson: What was made of it.
        seen: What the student revealed, attached to its graph.

    Returns:
        The same look, with weights and loss.
    """
    if is_deep(task.teacher):  # the student's gradient goes through the weights, too
        own = detached(dict(task.teacher.named_parameters()))
        weights = task.weights(own, lesson, seen, batch.seed)
    else:
        with torch.no_grad():
            weights = task.weights({}, lesson, seen, batch.seed)
    return Look(lesson, seen, weights, task.reduce(seen.losses, weights, lesson))


def ahead(task: Task, step: Step, witness: Witness) -> Window:
    """The window of a step that the optimiser has not taken yet.

    Args:
        task: The student learning under the teacher, its gradients set.
        step: The step.
        witness: What was seen of it.

    Returns:
        The student before it as it is, and after it as it would be.
    """
    state = task.student.state()
    params = task.student.params
    grads = {k: g for k in step.settings if (g := params[k].grad) is not None}
    with torch.no_grad():
        end = task.rule.update(state, grads, step.settings)
    return Window(state, (step,), end, witness, gradient=grads)


def look_again(
    task: Task, recorder: Recorder, teacher: Params, start: StudentState, step: Step
) -> Witness:
    """What was seen of a step, from the state before it.

    Args:
        task: The student learning under the teacher.
        recorder: The student's.
        teacher: Teacher parameters as they were.
        start: The student before the step.
        step: The step.

    Returns:
        The same witness, its passes recorded.
    """
    theta = leaves(start.params)
    with torch.no_grad():
        lesson = task.lesson(teacher, step.batch)
    with recorder.record(len(lesson.ids), theta) as recorded:
        seen, _ = task.observe(start._replace(params=theta), lesson, step)
        weights = task.weights(teacher, lesson, seen, step.batch.seed)
        loss = task.reduce(seen.losses, weights, lesson)
        torch.autograd.grad(loss, list(theta.values()), allow_unused=True)
    return Witness(lesson, detach(seen), recorded)
