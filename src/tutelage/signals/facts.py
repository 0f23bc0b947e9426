"""What a hypergradient leaves out, for ``Estimate.facts``."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.batch_norm import batch_norm_over
from tutelage.distributed.groups import ALONE
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.trees import detached, in_dtype, inner, leaves, plus, reached_grad
from tutelage.precision import FULL
from tutelage.signals.products import Product
from tutelage.teacher import implements, weights_attached
from tutelage.types import Batch, Params, Step, StudentState

SIZES = (3e-3, 3e-5, 3e-7)
"""of the steps of differences, relative to the norm of the parameters"""
LEAST = 1e-3
"""relative gap between derivative and difference, above which a path is left out"""
FEW = 16
"""held-out examples of the check, in float64: a path is cut for all of them or none"""
FAILURES = UnsupportedStudentError, RuntimeError, ValueError, TypeError
"""of a student, objective or teacher that does not take float64"""
Loss = Callable[[StudentState, Params, Step, Batch], Tensor]
Known = list[tuple[Callable[[], object], bool, bool]]
_KNOWN: WeakKeyDictionary[nn.Module, WeakKeyDictionary[nn.Module, Known]] = WeakKeyDictionary()
"""by teacher and student: the objective, whether it is of training, and what was found"""


def facts_of(
    problem: BilevelProblem,
    teacher_params: Params,
    state: StudentState,
    step: Step,
    held_out: Batch,
    *,
    several: bool,
    product: Product | None = None,
) -> dict[str, float]:
    """``weights_fixed`` and ``detached``, where an estimate has them.

    ``weights_fixed`` where later weights are taken not to depend on earlier steps; only with
    ``several`` is the student's gradient differentiated in its parameters. ``detached`` where
    autograd and finite differences of the held-out loss disagree, as the student, the objective
    or the teacher's losses cut a path out of the graph. The training loss is checked, too,
    where there are several steps or the product uses differences of values. What does not run
    in float64 is not checked.
    """
    facts, teacher = dict[str, float](), problem.teacher
    if several and implements(teacher, "weigh") and not weights_attached(teacher):
        facts["weights_fixed"] = 1.0
    problem = replace(problem, processes=ALONE)  # whether others check, too, is not known
    losses: list[Loss] = [
        lambda now, teacher_params, _, held: problem.held_out_loss(now, teacher_params, held)
    ]
    if several or (product is not None and product.by_differences):
        losses.append(
            lambda now, teacher_params, step, _: _training_loss(
                problem, teacher_params, now, step
            )
        )
    call = state, teacher_params, step, held_out
    with batch_norm_over(ALONE):
        if any(_detaches(problem, loss, *call, bool(n)) for n, loss in enumerate(losses)):
            facts["detached"] = 1.0
    return facts


def _detaches(
    problem: BilevelProblem,
    loss: Loss,
    state: StudentState,
    teacher_params: Params,
    step: Step,
    held_out: Batch,
    training: bool,
) -> bool:
    # known from an earlier estimate, or checked in float64
    objective: object = problem.objective
    if not training and problem.metric is not None:
        objective = problem.metric
    known = _KNOWN.setdefault(problem.teacher, WeakKeyDictionary())
    known = known.setdefault(problem.student.module, [])
    for kept, of_training, found in known:
        if kept() is objective and of_training is training:
            return found
    found = False
    with suppress(*FAILURES):
        state = StudentState(_double(state.params), _double(state.buffers), {})
        teacher_params = _double(teacher_params)
        own = _double_batch(step.batch)
        held = _double_batch(_first(held_out))
        step, theta = step._replace(batch=own), {k: state.params[k] for k in step.settings}
        found = detaches(
            lambda now: loss(now, teacher_params, step, held), state, leaves(theta)
        )
    known[:] = [entry for entry in known if entry[0]() is not None]
    known.append((_reference(objective), training, found))
    return found


def _reference(held: object) -> Callable[[], object]:
    # weak where the object's class allows it
    try:
        return ref(held)
    except TypeError:
        return lambda: held


def _double(params: Params) -> Params:
    # integers stay
    return {
        k: x.to(torch.promote_types(x.dtype, torch.float64))
        if x.is_floating_point() or x.is_complex()
        else x
        for k, x in detached(params).items()
    }


def _first(batch: Batch) -> Batch:
    rows = batch.inputs[:FEW], batch.targets[:FEW], batch.ids[:FEW]
    return batch._replace(inputs=rows[0], targets=rows[1], ids=rows[2])


def _double_batch(batch: Batch) -> Batch:
    return in_dtype(batch, torch.float64)._replace(autocast=FULL)


def detaches(
    loss: Callable[[StudentState], Tensor], state: StudentState, theta: Params
) -> bool:
    """Whether the derivative of a loss, in float64, is not that of its values.

    The derivative along the gradient is compared with central differences at three sizes, and
    with both one-sided differences at the smallest. A detached path makes the same gap in all
    of them. A kink does not: it lies beyond the smaller sizes, or to one side of the student.
    """

    def at(params: Params) -> Tensor:
        return loss(state._replace(params=state.params | params))

    here = at(theta)
    gradient = reached_grad(here, theta)
    if not gradient:
        return False
    norm, gaps = inner(gradient, gradient).sqrt(), []
    for size in SIZES:
        length = size * inner(theta, theta).sqrt() / norm
        with torch.no_grad():
            up, down = (at(plus(theta, gradient, sign * length)) for sign in (1, -1))
        slopes = [(up - down) / 2]
        if size == min(SIZES):
            slopes += [up - here.detach(), here.detach() - down]
        gaps += [slope / (length * norm.square()) - 1 for slope in slopes]
    near, far = torch.stack(gaps).aminmax()
    least = torch.minimum(near.abs(), far.abs())
    return bool((least > LEAST) & (least > 4 * (far - near)))


def _training_loss(
    problem: BilevelProblem, teacher_params: Params, state: StudentState, step: Step
) -> Tensor:
    # weights that are taken as given are 1
    if weights_attached(problem.teacher):
        return problem.training_loss(state, teacher_params, step)[0]
    prepared = problem.prepare(teacher_params, step.batch)
    observation = problem.observe(state, prepared, step)[0]
    losses = problem.row_losses(teacher_params, prepared, observation, step.batch.seed)
    return problem.reduce(losses, torch.ones_like(losses), prepared)
