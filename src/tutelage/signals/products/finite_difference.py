"""Products by finite differences of gradients, with an error bound."""

from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UsageError
from tutelage.functional.trees import grads_of_both, inner, leaves, plus
from tutelage.precision import upcast
from tutelage.signals.products.product import Product
from tutelage.signals.products.training_loss import Loss, LossNearStudent, loss_near
from tutelage.types import Params, Step, StudentState
from tutelage.validation.ranges import above_zero


@dataclass(frozen=True)
class FiniteDifference(Product):
    """``(g(theta + e v) - g(theta - e v)) / 2 e``: the memory of a plain step.

    Excellent on smooth students and noise on students with kinks (ReLU, max-pooling), where the
    gradient jumps. So every product is taken at ``e`` and at ``2 e``, and refused where the two
    differ by more than ``bound``, relative to the product's norm.

    Raises:
        UsageError: If ``size`` or ``bound`` is not positive, or ``size`` not finite.
    """

    size: float = 1e-2
    """norm of ``e v``"""
    bound: float = 0.05
    """largest relative disagreement that is accepted; ``inf`` accepts everything"""

    def __post_init__(self) -> None:
        above_zero(self, "size")
        if not self.bound > 0:
            raise UsageError(f"bound must be above 0, got {self.bound}; inf accepts all.")

    @property
    def by_differences(self) -> bool:
        """Whether ``M v`` is a difference of values."""
        return True

    def linearise(
        self, problem: BilevelProblem, state: StudentState, teacher_params: Params, step: Step
    ) -> "Differences":
        """The step's gradient."""
        theta = {k: upcast(p.detach()) for k, p in state.params.items()}  # not in half
        near = loss_near(problem, state, theta, teacher_params, step)
        return Differences(**vars(near), how=self)


@dataclass(frozen=True)
class Differences(LossNearStudent):
    """Products from gradients at four points near one student."""

    how: FiniteDifference

    def mixed_and_hessian(self, v: Params) -> tuple[Params, Params]:
        """Both products from the same four gradients."""
        known = {k: v[k] for k in self.theta if k in v}
        norm = float(inner(known, known).sqrt()) if known else 0.0
        if norm == 0.0:
            zeros = {k: torch.zeros_like(p) for k, p in self.theta.items()}
            return {k: torch.zeros_like(p) for k, p in self.teacher_params.items()}, zeros
        near = self._difference(known, self.how.size / norm)
        far = self._difference(known, 2 * self.how.size / norm)
        near = near[0], self.processes.all_reduce_params(near[1])
        far = far[0], self.processes.all_reduce_params(far[1])
        mixed = tuple(self.processes.all_reduce_params(part[0]) for part in (near, far))
        for name, (a, b) in (("M v", mixed), ("H v", (near[1], far[1]))):
            error = disagreement(a, b)  # of all, so that no process stops alone
            if name == "M v" and error > self.how.bound and self._cancels():
                continue
            if isfinite(error) and error > self.how.bound:
                raise FloatingPointError(
                    f"{name} by differences of gradients is uncertain by "
                    f"{min(error, 10.0):.0%}, above bound={self.how.bound:.0%}: the student's "
                    f"gradient is not smooth at "
                    f"size={self.how.size:g}. Use DoubleBackward, or raise bound."
                )
        return near

    def _cancels(self) -> bool:
        # the teacher has no effect on the loss, such as the weight of a batch's only row: M v
        # is zero, and its differences are rounding
        theta, teacher_params = leaves(self.theta), leaves(self.teacher_params)
        loss = self.loss(theta, teacher_params)
        found = self.processes.all_reduce_params(grads_of_both(loss, theta, teacher_params)[1])
        total = float(self.processes.all_reduce(loss.detach()).abs())
        return _norm(found) <= 10 * torch.finfo(loss.dtype).eps * total

    def _difference(self, v: Params, scale: float) -> tuple[Params, Params]:
        up_theta, up_teacher = gradients(
            self.loss, plus(self.theta, v, scale), self.teacher_params
        )
        down_theta, down_teacher = gradients(
            self.loss, plus(self.theta, v, -scale), self.teacher_params
        )
        return _slope(up_teacher, down_teacher, scale), _slope(up_theta, down_theta, scale)


def gradients(loss: Loss, theta: Params, teacher_params: Params) -> tuple[Params, Params]:
    """Gradients of a loss in student and teacher, detached."""
    theta, teacher_params = leaves(theta), leaves(teacher_params)
    return grads_of_both(loss(theta, teacher_params), theta, teacher_params)


def disagreement(a: Params, b: Params) -> float:
    """``|a - b| / |a|``; 0 where both are zero."""
    if not a:
        return 0.0
    off = plus(a, b, -1.0)
    difference, size = _norm(off), _norm(a)
    return 0.0 if difference == 0 else difference / max(size, 1e-300)


def _slope(up: Params, down: Params, scale: float) -> Params:
    return {k: (up[k] - down[k]) / (2 * scale) for k in up}


def _norm(a: Params) -> float:
    total: Tensor = inner(a, a)
    return float(total.double().sqrt())
