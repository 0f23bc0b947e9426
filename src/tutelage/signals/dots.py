"""Dot products of a real step's rows, from what was seen of it while it was taken."""

import torch
from torch import Tensor

from tutelage.bilevel import Task
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.replay_context import detach
from tutelage.functional.trees import detached
from tutelage.per_example import forward_difference_dots, forward_dots
from tutelage.per_example.recording import Recording
from tutelage.precision import FULL, wide
from tutelage.signals.products import Alignment, Automatic
from tutelage.signals.products.alignment import CLOSE, losses_near
from tutelage.types import Lesson, Params, Step, StudentState, Witness


def dots_of(
    task: Task,
    product: Automatic | Alignment,
    start: StudentState,
    teacher: Params,
    step: Step,
    v: Params,
    witness: Witness,
    *,
    weighted_only: bool = False,
) -> Tensor:
    """``<d l_i / d theta, v>`` at the step, read off its own passes where these show enough."""
    recorded = witness.recorded
    # another process may have recorded its rows where this one has not; both send one message
    if recorded is not None or task.processes.size > 1:
        coefficients = row_coefficients(task, teacher, step, witness)
        if recorded is not None:
            try:
                return recorded_dots(recorded, coefficients, v, weighted_only=weighted_only)
            except UnsupportedStudentError:  # the passes do not show everything
                return exact_dots(task, start, witness.lesson, step, v)
    if isinstance(product, Alignment) and recorded is None:
        if product.method == "one-sided":
            return one_sided(task, start, step, v, witness)
        return product.dots(task, start, witness.lesson, step, v)
    return exact_dots(task, start, witness.lesson, step, v)


def exact_dots(
    task: Task, start: StudentState, lesson: Lesson, step: Step, v: Params
) -> Tensor:
    """``<d l_i / d theta, v>`` by separate passes, in forward mode where the student has it."""
    return Alignment().dots(task, start, lesson, step, v)


def one_sided(
    task: Task, start: StudentState, step: Step, v: Params, witness: Witness
) -> Tensor:
    """``(l_i(theta + e v) - l_i(theta)) / e``, the losses at the step itself being known.

    One forward pass, where central differences take two; both are taken anew in float32 where
    the step was in half precision, whose losses are no good for differences.
    """
    lesson, here = witness.lesson, witness.seen.losses
    half = lesson.autocast != FULL or any(p.dtype != wide(p).dtype for p in v.values())
    losses, _ = losses_near(task, start, lesson._replace(autocast=FULL), step)
    if half:
        with torch.no_grad():
            here = losses({k: wide(p) for k, p in start.params.items()})
    return forward_difference_dots(losses, start.params, v, here, CLOSE)


def weighted_slopes(
    task: Task, teacher: Params, start: StudentState, step: Step, v: Params, lesson: Lesson
) -> tuple[Tensor, Tensor]:
    """The derivatives along v of what the student descends for each row, and of its weight."""
    phi = detached(teacher)

    def values(params: Params) -> Tensor:
        moved = start._replace(params=start.params | params)
        seen, _ = task.observe(moved, lesson, step)
        losses = task.descended(phi, lesson, seen, step.batch.seed)
        weights = task.weights(phi, lesson, seen, step.batch.seed)
        return torch.cat([losses, weights.reshape(losses.shape).to(losses.dtype)])

    losses, weights = forward_dots(values, start.params, v).chunk(2)
    return losses, weights


def seen_again(task: Task, teacher: Params, start: StudentState, step: Step) -> Witness:
    """What was seen of a step, from the state before it."""
    with torch.no_grad():
        lesson = task.lesson(detached(teacher), step.batch)
        seen, _ = task.observe(start, lesson, step)
    return Witness(lesson, detach(seen), None)


def row_coefficients(task: Task, teacher: Params, step: Step, witness: Witness) -> Tensor:
    """The derivative of the student's loss by each row's loss."""
    lesson, seen = witness.lesson, witness.seen
    weights = task.weights(detached(teacher), lesson, seen, step.batch.seed)
    losses = seen.losses.detach().requires_grad_()
    return torch.autograd.grad(task.reduce(losses, weights, lesson), losses)[0]


def recorded_dots(
    recorded: Recording, coefficients: Tensor, v: Params, *, weighted_only: bool
) -> Tensor:
    """Dot products read off the step's own passes."""
    absent = coefficients == 0
    if bool(absent.any()) and not weighted_only:
        raise UnsupportedStudentError("A row of weight zero left nothing to read off.")
    return recorded.dots(v, coefficients.where(~absent, 1))
