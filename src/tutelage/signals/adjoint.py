"""The adjoint of one student step, for any update rule."""

from typing import NamedTuple

import torch

from tutelage.bilevel import BilevelProblem
from tutelage.functional.differentiable import require_steps_with_derivative
from tutelage.functional.flat_params import FlatParams, update_jointly
from tutelage.functional.optim import UpdateRule
from tutelage.functional.trees import leaves, plus
from tutelage.signals.products import Linearised, Product
from tutelage.types import Params, Step, StudentState


class Adjoint(NamedTuple):
    """Gradients of the held-out loss."""

    params: Params
    """with respect to the student's parameters"""
    slots: dict[str, Params]
    """with respect to the optimiser's memory, its count of steps left out"""
    teacher: Params
    """with respect to the teacher's parameters, over the steps gone through so far"""

    @classmethod
    def at(cls, end: StudentState, direct: Params, teacher_params: Params) -> "Adjoint":
        """The adjoint at the end of a run."""
        slots = {
            slot: {k: torch.zeros_like(x) for k, x in memory.items()}
            for slot, memory in end.slots.items()
            if slot != "step"
        }
        return cls(direct, slots, teacher_params)


class ReplayedStep(NamedTuple):
    """A recomputed step, linearised for a backward pass."""

    rule: UpdateRule
    state: StudentState
    """before the step"""
    step: Step
    linearised: Linearised
    """the gradient at ``state``"""

    def after(self) -> StudentState:
        """The state after the step."""
        with torch.no_grad():
            after = update_jointly(self.rule, self.state, self._moving, self.step.settings)
        return after._replace(buffers=self.linearised.buffers)

    def backward(self, adjoint: Adjoint) -> Adjoint:
        """Propagate an adjoint back through the step.

        The update rule is differentiated elementwise, which gives the adjoint of the step's
        gradient g; then ``d_theta += H g_bar`` and ``d_phi += M g_bar``.
        """
        joint = FlatParams.of(self.state, self._moving, self.step.settings)
        at_rule, g_bar = _through_rule(self.rule, joint, adjoint)
        d = joint.placed(at_rule, StudentState(adjoint.params, {}, adjoint.slots))
        before = {slot: self.state.slots.get(slot, {}) for slot in d.slots}
        d_slots = {slot: {k: d.slots[slot][k] for k in ks} for slot, ks in before.items()}
        mixed, hessian = self.linearised.mixed_and_hessian(joint.part(g_bar, self.state.params))
        return Adjoint(plus(d.params, hessian), d_slots, plus(adjoint.teacher, mixed))

    @property
    def _moving(self) -> Params:
        # the gradient of what the optimiser moves
        return {k: g for k, g in self.linearised.gradient.items() if k in self.step.settings}


def replay_step(
    problem: BilevelProblem,
    product: Product,
    state: StudentState,
    teacher_params: Params,
    step: Step,
) -> ReplayedStep:
    """Recompute a step and linearise it."""
    problem.student.require(require_steps_with_derivative)
    return ReplayedStep(
        problem.rule, state, step, product.linearise(problem, state, teacher_params, step)
    )


def _through_rule(
    rule: UpdateRule, joint: FlatParams, adjoint: Adjoint
) -> tuple[StudentState, Params]:
    # the adjoint of what the rule was given: of the state, and of the gradient
    theta, gradient = leaves(joint.state.params), leaves(joint.grads)
    learned = {k: leaves(m) for k, m in joint.state.slots.items() if k != "step"}
    before = StudentState(theta, {}, joint.state.slots | learned)
    after = rule.update(before, gradient, joint.settings)
    outputs, seeds = list(after.params.values()), joint.join(adjoint.params)
    seeds = [seeds[k] for k in after.params]
    for slot, known in adjoint.slots.items():
        bars = joint.join(known)
        outputs += [x for k, x in after.slots.get(slot, {}).items() if k in bars]
        seeds += [bars[k] for k in after.slots.get(slot, {}) if k in bars]
    inputs = [theta, *learned.values(), gradient]
    flat = [x for named in inputs for x in named.values()]
    found = iter(torch.autograd.grad(outputs, flat, seeds, materialize_grads=True))
    d_theta, *d_slots, g_bar = ({k: next(found) for k in named} for named in inputs)
    return StudentState(d_theta, {}, dict(zip(learned, d_slots, strict=True))), g_bar
