"""Backpropagation through momentum SGD run backwards, so that no earlier state is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import torch

from tutelage.errors import UnsupportedStudentError
from tutelage.records import Batch, Estimate, Params, Step, Window
from tutelage.rules import MomentumSGD, Rule, Settings
from tutelage.signals.products import both_products, mixed_product
from tutelage.task import Task
from tutelage.trees import leaves, named_grad, plus

WORST_DRIFT = 1e-3
"""relative error of a recovered state above which the estimate is refused"""


@dataclass(frozen=True)
class Reversible:
    """Undo the window's steps one by one and carry the adjoint along.

    With ``v' = mu v + g``, ``theta' = theta - eta v'`` and g including weight decay:
    ``theta = theta' + eta v'``, ``v = (v' - g) / mu``; the adjoints are
    ``d_phi += M dv``, ``d_theta += H dv + wd dv`` and ``dv <- -eta_before d_theta + mu dv``,
    starting from ``d_theta`` = held-out gradient and ``dv = -eta d_theta``; ``eta_before`` is
    the learning rate of the step before. Earlier states come back with a rounding error that
    grows by ``1 / mu`` a step.

    Source: Fan et al. 2021, Learning to Reweight with Deep Interactions, algorithm 1, with the
    learning-rate index of its recursion for dv corrected (the printed one is off by one step).

    Note: exact for momentum SGD only; plain SGD forgets its velocity and cannot be undone.
    Buffers (running statistics) are not rewound: the replays see those of the window's end.

    Raises:
        ValueError: If ``steps`` is below 1.
    """

    steps: int
    keeps_start: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}.")

    def __call__(
        self, task: Task, teacher: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate the hypergradient.

        Args:
            task: The student learning under the teacher.
            teacher: Teacher parameters, requiring grad.
            window: The steps to look back over; its start is not used.
            held_out: The batch that judges the student at the window's end.

        Returns:
            The gradient of the held-out loss, exact up to the rounding of the undone steps.
        """
        require_reversible(task.rule, window.steps, window.end.params)
        end = window.end._replace(params=leaves(window.end.params))
        loss = task.held_out_loss(end, teacher, held_out)
        direct = named_grad(loss, {f"teacher/{k}": p for k, p in teacher.items()} | end.params)
        total = {k: direct[f"teacher/{k}"] for k in teacher}
        d_theta = {k: direct[k] for k in end.params}
        with torch.no_grad():
            d_velocity = _through_params({}, d_theta, window.steps[-1])
            params = _before(window.end.params, end.slots["momentum_buffer"], window.steps[-1])
        velocity = end.slots["momentum_buffer"]
        for step, earlier in zip(window.steps[:0:-1], window.steps[-2::-1], strict=True):
            direction = _signed(d_velocity, step)
            state = end._replace(params=params)
            products = both_products(task, state, teacher, step, direction)
            total = plus(total, products.mixed)
            with torch.no_grad():
                velocity = _velocity_before(velocity, products.gradient, params, step)
                d_theta = plus(d_theta, products.hessian)
                d_theta = plus(d_theta, _decayed(d_velocity, step))
                d_velocity = _through_params(
                    _through_velocity(d_velocity, step), d_theta, earlier
                )
                params = _before(params, velocity, earlier)
        first = window.steps[0]
        state = end._replace(params=params)
        last = mixed_product(task, state, teacher, first, _signed(d_velocity, first))
        return Estimate(plus(total, last), loss.detach())


def _before(params: Params, velocity: Params, step: Step) -> Params:
    # theta = theta' + eta v'
    undone = {k: params[k] + s["lr"] * velocity[k] for k, s in step.settings.items()}
    return params | undone


def _velocity_before(velocity: Params, gradient: Params, params: Params, step: Step) -> Params:
    # v = (v' - g) / mu, with g including weight decay and the sign of maximize
    undone = {}
    for k, s in step.settings.items():
        g = (-gradient[k] if s["maximize"] else gradient[k]) + s["weight_decay"] * params[k]
        undone[k] = (velocity[k] - g) / s["momentum"]
    return velocity | undone


def _signed(d_velocity: Params, step: Step) -> Params:
    # the direction of the products: dv, negated where the optimiser maximises
    return {
        k: -d_velocity[k] if s["maximize"] else d_velocity[k] for k, s in step.settings.items()
    }


def _decayed(d_velocity: Params, step: Step) -> Params:
    # wd dv: the Hessian product of the weight decay
    return {k: s["weight_decay"] * d_velocity[k] for k, s in step.settings.items()}


def _through_velocity(d_velocity: Params, step: Step) -> Params:
    # mu dv; a parameter that the step left alone keeps its adjoint
    return d_velocity | {k: s["momentum"] * d_velocity[k] for k, s in step.settings.items()}


def _through_params(d_velocity: Params, d_theta: Params, step: Step) -> Params:
    # dv - eta dtheta, for what the step moved by its velocity
    moved = {
        k: d_velocity[k] - s["lr"] * d_theta[k] if k in d_velocity else -s["lr"] * d_theta[k]
        for k, s in step.settings.items()
    }
    return d_velocity | moved


def require_reversible(rule: Rule, steps: Sequence[Step], params: Params) -> None:
    """Refuse optimisers whose steps cannot be undone, and windows too long to be undone well.

    Args:
        rule: The student's update rule.
        steps: The steps to undo.
        params: The student's parameters, for their precision.

    Raises:
        UnsupportedStudentError: If the optimiser is not momentum SGD in its plain form.
        ValueError: If rounding would grow beyond ``WORST_DRIFT``.
    """
    settings = [s for step in steps for s in step.settings.values()]
    if not isinstance(rule, MomentumSGD) or not all(map(_can_be_undone, settings)):
        raise UnsupportedStudentError(
            "Reversible undoes torch.optim.SGD with momentum > 0, dampening 0 and without "
            "Nesterov only. Use Unrolled for other optimisers."
        )
    growth = prod(1 / min(s["momentum"] for s in step.settings.values()) for step in steps)
    precision = max(torch.finfo(p.dtype).eps for p in params.values())
    if growth * precision > WORST_DRIFT:
        raise ValueError(
            f"Undoing {len(steps)} steps would amplify rounding to about "
            f"{growth * precision:.0e}, above {WORST_DRIFT:.0e}. "
            "Look back over fewer steps, train in float64, or use Unrolled."
        )


def _can_be_undone(settings: Settings) -> bool:
    plain = not settings["nesterov"] and not settings["dampening"]
    return plain and settings["momentum"] > 0
