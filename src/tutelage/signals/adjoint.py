"""One student step backwards: from the adjoint of the state after it to that before it."""

from typing import NamedTuple

import torch

from tutelage.records import Params, Step, StudentState
from tutelage.signals.products import Product
from tutelage.task import Task
from tutelage.trees import leaves, plus


class Adjoint(NamedTuple):
    """Derivatives of the held-out loss."""

    params: Params
    """with respect to the student's parameters"""
    slots: dict[str, Params]
    """with respect to the optimiser's memory; what is missing is zero"""
    teacher: Params
    """with respect to the teacher's parameters, over the steps gone through so far"""


def through_step(
    task: Task,
    product: Product,
    state: StudentState,
    teacher: Params,
    step: Step,
    adjoint: Adjoint,
) -> Adjoint:
    """Carry an adjoint back through one step.

    The update rule is differentiated elementwise, which gives the adjoint of the step's
    gradient g; then ``d_theta += H g_bar`` and ``d_phi += M g_bar``.

    Args:
        task: The student learning under the teacher.
        product: How the products are taken.
        state: The student before the step.
        teacher: Teacher parameters, requiring grad.
        step: The step.
        adjoint: With respect to the state after the step.

    Returns:
        With respect to the state before the step.
    """
    linearised = product.linearise(task, state, teacher, step)
    grads = {k: g for k, g in linearised.gradient.items() if k in step.settings}
    theta, gradient = leaves(state.params), leaves(grads)
    slots = {slot: leaves(memory) for slot, memory in state.slots.items()}
    after = task.rule.update(StudentState(theta, {}, slots), gradient, step.settings)
    before = [*theta.values(), *(m for memory in slots.values() for m in memory.values())]
    outputs, seeds = _seeded(after, adjoint)
    back = torch.autograd.grad(
        outputs, [*before, *gradient.values()], seeds, materialize_grads=True
    )
    found = iter(back)
    d_theta = {k: next(found) for k in theta}
    d_slots = {slot: {k: next(found) for k in memory} for slot, memory in slots.items()}
    mixed, hessian = linearised.both({k: next(found) for k in gradient})
    return Adjoint(plus(d_theta, hessian), d_slots, plus(adjoint.teacher, mixed))


def _seeded(after: StudentState, adjoint: Adjoint) -> tuple[list, list]:
    outputs = [p for p in after.params.values() if p.requires_grad]
    seeds = [adjoint.params[k] for k, p in after.params.items() if p.requires_grad]
    for slot, memory in after.slots.items():
        known = adjoint.slots.get(slot, {})
        for name, tensor in memory.items():
            if tensor.requires_grad and name in known:
                outputs.append(tensor)
                seeds.append(known[name])
    return outputs, seeds
