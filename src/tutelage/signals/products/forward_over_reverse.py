"""Products by forward mode over the gradient."""

from dataclasses import dataclass

import torch
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from tutelage.bilevel import BilevelProblem
from tutelage.functional.derivatives import named_operators
from tutelage.functional.trees import detached, leaves, named_grad
from tutelage.per_example.forward import load_forward_mode
from tutelage.signals.products.product import Product
from tutelage.signals.products.training_loss import LossNearStudent, loss_near
from tutelage.types import Params, Step, StudentState

_INSTEAD = "Use DoubleBackward or FiniteDifference in place of ForwardOverReverse."


@dataclass(frozen=True)
class ForwardOverReverse(Product):
    """Exact: ``d/de`` of both gradients at ``theta + e v``, in forward mode.

    For students of whose operators one lacks a second derivative but has a forward-mode one. It
    measured slower and heavier than double backward on convolutional networks.

    Source: Kemaev et al. 2025, mixed-mode differentiation.
    """

    def linearise(
        self, problem: BilevelProblem, state: StudentState, teacher_params: Params, step: Step
    ) -> "AlongDirections":
        """The step's gradient."""
        near = loss_near(problem, state, detached(state.params), teacher_params, step)
        return AlongDirections(**vars(near))


@dataclass(frozen=True)
class AlongDirections(LossNearStudent):
    """Products from one pass in forward mode."""

    def mixed_and_hessian(self, v: Params) -> tuple[Params, Params]:
        """Both products in one pass."""
        load_forward_mode()
        with named_operators("derivative in forward mode", _INSTEAD), dual_level():
            moving = {k: p.detach().requires_grad_() for k, p in self.theta.items()}
            theta = {k: make_dual(p, v[k]) if k in v else p for k, p in moving.items()}
            teacher_params = leaves(self.teacher_params)
            named = {f"teacher/{k}": p for k, p in teacher_params.items()}
            # with a graph, torch takes the gradient's formulas that have a forward mode
            grads = named_grad(
                self.loss(theta, teacher_params), named | theta, create_graph=True
            )
            found = {k: unpack_dual(g).tangent for k, g in grads.items()}
            slopes = {
                k: torch.zeros_like(grads[k]) if t is None else t for k, t in found.items()
            }
        hessian = self.processes.all_reduce_params({k: slopes[k].detach() for k in self.theta})
        return {k: slopes[f"teacher/{k}"].detach() for k in self.teacher_params}, hessian
