"""First-order products, which leave out the Hessian."""

from dataclasses import dataclass, field

import torch

from tutelage.bilevel import BilevelProblem
from tutelage.signals.products.automatic import Automatic
from tutelage.signals.products.product import Linearised, Product
from tutelage.types import Params, Step, StudentState


@dataclass(frozen=True)
class FirstOrder(Product):
    """``H v = 0``, and ``M v`` as another product gives it.

    An approximation: with SGD the adjoint passes every step unchanged, so that the start's
    gradient is the held-out gradient at the student's end, and the teacher's is
    ``-lr sum_k M_k v`` with that one ``v``.

    Source: Finn et al. 2017, Model-Agnostic Meta-Learning, section 5.2 (the start's gradient);
    the teacher's is the same omission, and ours.
    """

    exact: Product = field(default_factory=Automatic)
    """gives ``M v``"""

    @property
    def by_differences(self) -> bool:
        """Whether ``M v`` is a difference of values."""
        return self.exact.by_differences

    def gives_gradient(self, problem: BilevelProblem) -> bool:  # noqa: ARG002 - a hook
        """Whether ``mixed`` computes the step's gradient as well."""
        return False

    def linearise(
        self, problem: BilevelProblem, state: StudentState, teacher_params: Params, step: Step
    ) -> "WithoutHessian":
        """The step's gradient at a student."""
        if teacher_params:
            return WithoutHessian(
                self.exact.linearise(problem, state, teacher_params, step), state
            )
        return WithoutHessian(
            DetachedGradient(*problem.gradient(state, teacher_params, step)), state
        )

    def mixed(
        self,
        problem: BilevelProblem,
        state: StudentState,
        teacher_params: Params,
        step: Step,
        v: Params,
    ) -> Params:
        """``M v`` alone."""
        return self.exact.mixed(problem, state, teacher_params, step, v)


@dataclass(frozen=True)
class DetachedGradient:
    """A gradient without a graph, of a step whose teacher has no parameters."""

    gradient: Params
    buffers: Params
    """the student's after the step"""

    def mixed(self, v: Params) -> Params:  # noqa: ARG002 - the interface
        """``M v``."""
        return {}


@dataclass(frozen=True)
class WithoutHessian:
    """A gradient whose dependence on the student is ignored."""

    known: Linearised | DetachedGradient
    state: StudentState

    @property
    def gradient(self) -> Params:
        """dL/dtheta, detached, for the parameters that the loss reaches."""
        return self.known.gradient

    @property
    def buffers(self) -> Params:
        """The student's buffers after the step."""
        return self.known.buffers

    def mixed_and_hessian(self, v: Params) -> tuple[Params, Params]:
        """Both products."""
        return self.mixed(v), self.hessian(v)

    def mixed(self, v: Params) -> Params:
        """``M v`` alone."""
        return self.known.mixed(v)

    def hessian(self, v: Params) -> Params:  # noqa: ARG002 - the interface
        """Zeros."""
        return {k: torch.zeros_like(p) for k, p in self.state.params.items()}
