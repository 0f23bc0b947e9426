"""What a hypergradient leaves out, for ``Estimate.facts``."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from tutelage.bilevel import ALONE, BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.trees import detached, inner, leaves, plus, reached_grad
from tutelage.precision import FULL
from tutelage.signals.products import Alignment, FiniteDifference, FirstOrder, Product
from tutelage.teacher import implements, weighs_deeply
from tutelage.types import Batch, Params, Step, StudentState

SIZE = 3e-3
"""of the smaller step of differences, relative to the norm of the parameters"""
LEAST = 1e-3
"""relative gap between derivative and difference, above which a path is left out"""
Loss = Callable[[StudentState], Tensor]
Key = tuple[type[nn.Module], int, int, bool]
_KNOWN: WeakKeyDictionary[nn.Module, dict[Key, bool]] = WeakKeyDictionary()
"""by teacher, and by kind and size of the student, objective and loss"""


def facts_of(
    problem: BilevelProblem,
    teacher: Params,
    state: StudentState,
    step: Step,
    held_out: Batch,
    *,
    several: bool,
    product: Product | None = None,
) -> dict[str, float]:
    """``weights_fixed`` and ``detached``, where an estimate has them.

    Args:
        problem: The student learning under the teacher.
        teacher: Teacher parameters.
        state: The student before or after the window.
        step: A step of it.
        held_out: The batch of the held-out loss.
        several: Whether the student's gradient is differentiated in its parameters, as over
            several steps.
        product: The method of products.

    Returns:
        ``weights_fixed`` where later weights are taken not to depend on earlier steps,
        ``detached`` where the held-out loss has another derivative than its values have, or the
        training loss over several steps or under differences of values: the student, the
        objective or the teacher's grades cut a path out of the graph.
    """
    facts: dict[str, float] = {}
    if several and implements(problem.teacher, "weigh") and not weighs_deeply(problem.teacher):
        facts["weights_fixed"] = 1.0
    problem = replace(problem, processes=ALONE)  # whether others check, too, is not known
    teacher, held_out = detached(teacher), held_out._replace(autocast=FULL)
    step = step._replace(batch=step.batch._replace(autocast=FULL))
    losses: list[Loss] = [lambda now: problem.held_out_loss(now, teacher, held_out)]
    if several or is_difference(product):
        losses.append(lambda now: _training_loss(problem, teacher, now, step))
    if any(_detaches(problem, loss, state, step, number) for number, loss in enumerate(losses)):
        facts["detached"] = 1.0
    return facts


def is_difference(product: Product | None) -> bool:
    """Whether ``M v`` is a difference of values, which detached paths change, too."""
    if isinstance(product, FirstOrder):
        return is_difference(product.exact)
    if isinstance(product, Alignment):
        return product.method in ("difference", "one-sided")
    return isinstance(product, FiniteDifference)


def _detaches(
    problem: BilevelProblem, loss: Loss, state: StudentState, step: Step, number: int
) -> bool:
    # known from an earlier estimate, or checked
    size, objective = sum(p.numel() for p in state.params.values()), problem.objective
    if not number and problem.metric is not None:
        objective = problem.metric
    key = type(problem.student.module), size, id(objective), bool(number)
    known = _KNOWN.setdefault(problem.teacher, {})
    if key not in known:
        state = state._replace(params=detached(state.params))
        known[key] = detaches(loss, state, leaves({k: state.params[k] for k in step.settings}))
    return known[key]


def detaches(loss: Loss, state: StudentState, theta: Params) -> bool:
    """Whether the derivative of a loss is not that of its values.

    The derivative along the gradient is compared with central differences at two sizes. Where
    these differ from one another as much, as at a kink, or where the loss fails, nothing is
    known, and nothing is said.

    Args:
        loss: From a student to a scalar.
        state: The student.
        theta: Some of its parameters, requiring grad.
    """

    def at(params: Params) -> Tensor:
        return loss(state._replace(params=state.params | params))

    with suppress(UnsupportedStudentError, RuntimeError, ValueError, TypeError):
        gradient = reached_grad(at(theta), theta)
        if not gradient:
            return False
        norm = inner(gradient, gradient).sqrt()
        slopes, size = [], SIZE * inner(theta, theta).sqrt() / norm
        for length in (size, 2 * size):
            with torch.no_grad():
                up, down = (at(plus(theta, gradient, sign * length)) for sign in (1, -1))
            slopes.append((up - down) / (2 * length))
        near, far = slopes
        gap = (near / norm.square() - 1).abs()
        return bool((gap > LEAST) & (gap > 4 * (near - far).abs() / norm.square()))
    return False


def _training_loss(
    problem: BilevelProblem, teacher: Params, state: StudentState, step: Step
) -> Tensor:
    # weights that are taken as given are 1
    if weighs_deeply(problem.teacher):
        return problem.training_loss(state, teacher, step)[0]
    lesson = problem.lesson(teacher, step.batch)
    observation = problem.observe(state, lesson, step)[0]
    losses = problem.row_losses(teacher, lesson, observation, step.batch.seed)
    return problem.reduce(losses, torch.ones_like(losses), lesson)
