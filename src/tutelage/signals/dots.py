"""Per-example products at a real step, from its own passes where possible."""

import torch
from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.replay_context import detach
from tutelage.functional.trees import detached
from tutelage.per_example import forward_difference_dots, forward_dots
from tutelage.precision import FULL, autocast_to, wide
from tutelage.signals.products import Alignment, Automatic
from tutelage.signals.products.gradient_dots import CLOSE, losses_function
from tutelage.types import Batch, Lesson, Params, Recorded, Step, StepObservation, StudentState


def dots_of(
    problem: BilevelProblem,
    product: Automatic | Alignment,
    start: StudentState,
    teacher: Params,
    step: Step,
    v: Params,
    observed: StepObservation,
    *,
    weighted_only: bool = False,
) -> Tensor:
    """``<d l_i / d theta, v>`` at the step, from the recorded passes or separate ones."""
    recorded = observed.recorded
    # another process may have recorded its rows where this one has not; both send one message
    if recorded is not None or problem.processes.size > 1:
        coefficients = row_coefficients(problem, teacher, step, observed)
        if recorded is not None:
            try:
                return recorded_dots(recorded, coefficients, v, weighted_only=weighted_only)
            except UnsupportedStudentError:  # the passes do not show everything
                return exact_dots(problem, start, observed.lesson, step, v)
    if isinstance(product, Alignment) and recorded is None:
        if product.method == "one-sided":
            return one_sided(problem, start, step, v, observed)
        return product.dots(problem, start, observed.lesson, step, v)
    return exact_dots(problem, start, observed.lesson, step, v)


def exact_dots(
    problem: BilevelProblem, start: StudentState, lesson: Lesson, step: Step, v: Params
) -> Tensor:
    """``<d l_i / d theta, v>`` by forward mode."""
    return Alignment().dots(problem, start, lesson, step, v)


def gradient_alignments(
    problem: BilevelProblem, lesson: Lesson, step: Step, held_out: Batch
) -> Tensor:
    """Inner product [L] of each row's gradient with the held-out gradient."""
    state, params = problem.student.state(), problem.student.params
    device = problem.student.device
    with torch.enable_grad(), autocast_to(FULL, device):
        found = problem.evaluate(state, {}, held_out).student
        towards = {k: g for k, g in found.items() if params[k].requires_grad}
        return exact_dots(problem, state, lesson, step, towards)


def one_sided(
    problem: BilevelProblem,
    start: StudentState,
    step: Step,
    v: Params,
    observed: StepObservation,
) -> Tensor:
    """``(l_i(theta + e v) - l_i(theta)) / e``, with known losses at the step.

    One forward pass, where central differences take two; both are taken anew in float32 where
    the step was in half precision, whose losses are no good for differences.
    """
    lesson, here = observed.lesson, observed.observation.losses
    half = lesson.autocast != FULL or any(p.dtype != wide(p).dtype for p in v.values())
    losses, _ = losses_function(problem, start, lesson._replace(autocast=FULL), step)
    if half:
        with torch.no_grad():
            here = losses({k: wide(p) for k, p in start.params.items()})
    return forward_difference_dots(losses, start.params, v, here, CLOSE)


def weighted_slopes(
    problem: BilevelProblem,
    teacher: Params,
    start: StudentState,
    step: Step,
    v: Params,
    lesson: Lesson,
) -> tuple[Tensor, Tensor]:
    """Derivatives along v of the rows' losses and weights."""
    phi = detached(teacher)

    def values(params: Params) -> Tensor:
        moved = start._replace(params=start.params | params)
        observation, _ = problem.observe(moved, lesson, step)
        losses = problem.row_losses(phi, lesson, observation, step.batch.seed)
        weights = problem.weights(phi, lesson, observation, step.batch.seed)
        return torch.cat([losses, weights.reshape(losses.shape).to(losses.dtype)])

    losses, weights = forward_dots(values, start.params, v).chunk(2)
    return losses, weights


def observe_step(
    problem: BilevelProblem, teacher: Params, start: StudentState, step: Step
) -> StepObservation:
    """Recompute the observation of a step from the state before it."""
    with torch.no_grad():
        lesson = problem.lesson(detached(teacher), step.batch)
        observation, _ = problem.observe(start, lesson, step)
    return StepObservation(lesson, detach(observation), None)


def row_coefficients(
    problem: BilevelProblem, teacher: Params, step: Step, observed: StepObservation
) -> Tensor:
    """The derivative of the weighted loss with respect to each row's loss."""
    lesson, observation = observed.lesson, observed.observation
    weights = problem.weights(detached(teacher), lesson, observation, step.batch.seed)
    losses = observation.losses.detach().requires_grad_()
    return torch.autograd.grad(problem.reduce(losses, weights, lesson), losses)[0]


def recorded_dots(
    recorded: Recorded, coefficients: Tensor, v: Params, *, weighted_only: bool
) -> Tensor:
    """Products read from a recording."""
    absent = coefficients == 0
    if bool(absent.any()) and not weighted_only:
        raise UnsupportedStudentError("A row of weight zero left nothing to read off.")
    return recorded.dots(v, coefficients.where(~absent, 1))
