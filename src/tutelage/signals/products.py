"""The products that all differentiable signals rest on: ``M v`` and ``H v``.

For a training step with loss L(theta, phi) and a direction v in the student's parameters,
``H v = d2L/dtheta dtheta . v`` and ``M v = d2L/dphi dtheta . v``.
"""

import warnings
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from tutelage.records import Lesson, Observation, Params, Step, StudentState
from tutelage.task import Task, detach
from tutelage.teaching import is_deep
from tutelage.trees import inner, leaves, named_grad, reached_grad


class Products(NamedTuple):
    """What one double backward pass gives."""

    gradient: Params
    """dL/dtheta for the parameters that the loss reaches"""
    mixed: Params
    """``M v``, keyed like the teacher"""
    hessian: Params
    """``H v``, keyed like the student"""


def both_products(
    task: Task, state: StudentState, teacher: Params, step: Step, v: Params
) -> Products:
    """``M v`` and ``H v`` by one double backward pass.

    Args:
        task: The student learning under the teacher.
        state: The student before the step.
        teacher: Teacher parameters, requiring grad.
        step: The step.
        v: Direction, keyed like the student's parameters.

    Returns:
        The gradient and both products, exact.
    """
    theta = leaves(state.params)
    loss, _ = task.taught_loss(state._replace(params=theta), teacher, step)
    gradient = reached_grad(loss, theta, create_graph=True)
    along = inner({k: g for k, g in gradient.items() if k in v}, v)
    grads = named_grad(along, {f"teacher/{k}": p for k, p in teacher.items()} | theta)
    mixed = {k: grads[f"teacher/{k}"] for k in teacher}
    hessian = {k: grads[k] for k in theta}
    return Products({k: g.detach() for k, g in gradient.items()}, mixed, hessian)


def mixed_product(
    task: Task, state: StudentState, teacher: Params, step: Step, v: Params
) -> Params:
    """``M v`` alone.

    Where the teacher enters through weights only, the loss is linear in the per-example losses,
    so that ``<dL/dtheta, v>`` is the same reduction of the dot products ``<dl_i/dtheta, v>``:
    one forward pass in forward mode and a backward pass through the teacher alone.

    Args:
        task: The student learning under the teacher.
        state: The student before the step.
        teacher: Teacher parameters, requiring grad.
        step: The step.
        v: Direction, keyed like the student's parameters.

    Returns:
        The product, keyed like the teacher; exact.
    """
    lesson = task.lesson(teacher, step.batch)
    if is_deep(task.teacher) or lesson.inputs.requires_grad or lesson.targets.requires_grad:
        return both_products(task, state, teacher, step, v).mixed
    try:
        dots, seen = dot_products(task, state, lesson, step, v)
    except NotImplementedError:  # some operator of the student has no forward-mode derivative
        return both_products(task, state, teacher, step, v).mixed
    weights = task.weights(teacher, lesson, seen, step.batch.seed)
    return named_grad(task.reduce(dots, weights, lesson), teacher)


def dot_products(
    task: Task, state: StudentState, lesson: Lesson, step: Step, v: Params
) -> tuple[Tensor, Observation]:
    """Dot product of every example's gradient with a direction: ``<dl_i/dtheta, v>``.

    The forward-mode derivative of the losses along ``v``; with batch normalisation in training
    mode it includes the path through the batch statistics.

    Args:
        task: The student learning under the teacher.
        state: The student.
        lesson: The rows to look at.
        step: The step whose seed and progress apply.
        v: Direction, keyed like the student's parameters; a missing one counts as zero.

    Returns:
        Dot products [L], and the observation at ``state``.
    """
    _load_forward_mode()
    # dual tensors, not torch.func.jvp: under that, dropout may draw another mask
    with torch.no_grad(), dual_level():
        moved = {k: make_dual(state.params[k].detach(), d) for k, d in v.items()}
        seen, _ = task.observe(state._replace(params=state.params | moved), lesson, step)
        losses, dots = unpack_dual(seen.losses)
        features = {k: unpack_dual(f).primal for k, f in seen.features.items()}
        here = Observation(losses, unpack_dual(seen.logits).primal, features, step.progress)
    return torch.zeros_like(losses) if dots is None else dots, detach(here)


@cache
def _load_forward_mode() -> None:
    # torch compiles some formulas at the first use, which warns of its own deprecated function
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with dual_level():
            make_dual(torch.zeros(()), torch.zeros(()))
