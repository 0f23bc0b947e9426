"""What a hypergradient over several steps leaves out, for ``Estimate.facts``."""

from collections.abc import Sequence
from contextlib import suppress
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.trees import detached, inner, leaves, plus, reached_grad
from tutelage.precision import FULL
from tutelage.teacher import implements, weighs_deeply
from tutelage.types import Params, Step, StudentState

SIZE = 3e-3
"""of the smaller step of differences, relative to the norm of the parameters"""
LEAST = 1e-3
"""relative gap between derivative and difference, above which a path is left out"""
Key = tuple[type[nn.Module], int, int]
_KNOWN: WeakKeyDictionary[nn.Module, dict[Key, bool]] = WeakKeyDictionary()
"""by teacher, and by kind and size of the student and the objective"""


def facts_of(
    problem: BilevelProblem, teacher: Params, state: StudentState, steps: Sequence[Step]
) -> dict[str, float]:
    """``weights_fixed`` and ``detached``, where an estimate over several steps has them.

    Args:
        problem: The student learning under the teacher.
        teacher: Teacher parameters.
        state: The student before or after the steps.
        steps: The steps.

    Returns:
        ``weights_fixed`` where later weights are taken not to depend on earlier steps,
        ``detached`` where the training loss has another derivative than its values have: the
        student, the objective or the teacher's grades cut a path out of the graph.
    """
    if len(steps) < 2:
        return {}
    fixed = implements(problem.teacher, "weigh") and not weighs_deeply(problem.teacher)
    facts = {"weights_fixed": 1.0} if fixed else {}
    size = sum(p.numel() for p in state.params.values())
    key = type(problem.student.module), size, id(problem.objective)
    known = _KNOWN.setdefault(problem.teacher, {})
    if key not in known:
        known[key] = detaches(problem, teacher, state, steps[0])
    return facts | {"detached": 1.0} if known[key] else facts


def detaches(problem: BilevelProblem, teacher: Params, state: StudentState, step: Step) -> bool:
    """Whether the derivative of a step's training loss is not that of its values.

    The derivative along the gradient is compared with central differences at two sizes. Where
    these differ from one another as much, as under autocast or at a kink, nothing is known, and
    nothing is said.
    """
    teacher, state = detached(teacher), state._replace(params=detached(state.params))
    theta = leaves({k: state.params[k] for k in step.settings})
    step = step._replace(batch=step.batch._replace(autocast=FULL))
    with suppress(UnsupportedStudentError, RuntimeError, ValueError, TypeError):
        gradient = reached_grad(_loss(problem, teacher, state, step, theta), theta)
        if not gradient:
            return False
        norm = inner(gradient, gradient).sqrt()
        size = SIZE * inner(theta, theta).sqrt() / norm
        slopes = []
        for length in (size, 2 * size):
            with torch.no_grad():
                up, down = (
                    _loss(problem, teacher, state, step, plus(theta, gradient, sign * length))
                    for sign in (1, -1)
                )
            slopes.append((up - down) / (2 * length))
        near, far = slopes
        gap = (near / norm.square() - 1).abs()
        return bool((gap > LEAST) & (gap > 4 * (near - far).abs() / norm.square()))
    return False


def _loss(
    problem: BilevelProblem, teacher: Params, state: StudentState, step: Step, theta: Params
) -> Tensor:
    # the training loss; weights that are taken as given are 1
    state = state._replace(params=state.params | theta)
    if weighs_deeply(problem.teacher):
        return problem.training_loss(state, teacher, step)[0]
    lesson = problem.lesson(teacher, step.batch)
    observation = problem.observe(state, lesson, step)[0]
    losses = problem.row_losses(teacher, lesson, observation, step.batch.seed)
    return problem.reduce(losses, torch.ones_like(losses), lesson)
