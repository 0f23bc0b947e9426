"""``Reversible``: backpropagation through reversed momentum SGD."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.optim import MomentumSGD, Settings, UpdateRule
from tutelage.functional.student import StudentView
from tutelage.functional.trees import is_finite, plus
from tutelage.precision import upcast
from tutelage.signals.drift import WORST_DRIFT as WORST_DRIFT
from tutelage.signals.drift import (
    UndoneVelocity,
    UndoneWindow,
    entries_of,
    require_little_drift,
    require_reached,
    require_same_start,
    require_same_velocity,
    require_undone,
    sample_of,
)
from tutelage.signals.facts import facts_of
from tutelage.signals.histories import ExactHistory, FloatHistory
from tutelage.signals.products import Automatic, Product
from tutelage.signals.signal import Signal
from tutelage.types import Batch, Estimate, Params, Step, StudentState, Window


@dataclass(frozen=True)
class Reversible(Signal):
    """Reverses the window's steps one by one and propagates the adjoint.

    With ``v' = mu v + g``, ``theta' = theta - eta v'`` and g including weight decay:
    ``theta = theta' + eta v'``, ``v = (v' - g) / mu``; the adjoints are
    ``d_phi += M dv``, ``d_theta += H dv + wd dv`` and ``dv <- -eta_before d_theta + mu dv``,
    starting from ``d_theta`` = held-out gradient and ``dv = -eta d_theta``; ``eta_before`` is
    the learning rate of the step before. Reversed states have a rounding error that grows by
    ``1 / mu`` a step or faster, by the loss's curvature. The error at the window's start is
    measured. A window with too large an error raises at the first estimate; later ones are
    skipped, counted and warned of.

    That error does not depend on the gradient of the window's first step, which is checked by
    the momentum buffers before it: in every window where the products give that gradient, and
    in every eighth where it costs a pass, as with ``Automatic`` and a teacher that weighs.

    Source: Fan et al. 2021, Learning to Reweight with Deep Interactions, algorithm 1, with the
    learning-rate index of its recursion for dv corrected (the printed one is off by one step).

    With ``exact=True`` the student's steps are taken in fixed point and reversed without error
    over any number of steps; the bits lost by multiplying by mu are stored. That needs a whole
    run (``estimate_run``), since ordinary floating-point steps have lost those bits already. A
    run that does not come back to its start bit for bit is refused.

    Note: for momentum SGD only; plain SGD forgets its velocity and cannot be undone.
    Buffers (running statistics) are not rewound: the first step is recomputed on those before
    it, the others on those of the window's end.

    Raises:
        ValueError: If ``steps`` is below 1.
    """

    steps: int
    exact: bool = False
    product: Product = field(default_factory=Automatic)
    full_precision: ClassVar[bool] = False  # undoing depends on how the steps were rounded

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}.")

    def check(self, problem: BilevelProblem) -> None:
        """Refuse what the product does not work with."""
        self.product.check(problem)

    def copy_start(self, student: StudentView) -> None:
        """None: the start is reconstructed."""

    def sample_start(self, student: StudentView) -> StudentState:
        """What the reconstructed start is compared with, and the student's buffers."""
        return sample_of(student.state())

    def __call__(
        self, problem: BilevelProblem, teacher_params: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate the hypergradient.

        Note: raises ``InexactWindowError`` where undoing the steps has lost too much.
        """
        if self.exact:
            raise ValueError(
                "Reversible(exact=True) must take the student's steps itself, in fixed point: "
                "use it for whole runs, as tutelage.training.loops.episodic does, or "
                "exact=False here."
            )
        require_reversible(problem.rule, window.steps)
        require_little_drift(window.steps, window.end.params)
        velocity = window.end.slots["momentum_buffer"]
        sample = window.sample if window.start is None else sample_of(window.start)
        start, buffers, slots = sample or (None, None, {})
        known = slots.get("momentum_buffer")
        history = FloatHistory(window.end.params, velocity)
        checks = known is not None and (
            window.costly_checks or self.product.gives_gradient(problem)
        )
        estimate, undone = self._back(
            *(problem, teacher_params, window.end, window.steps, held_out, history, buffers),
            checks_velocity=checks,
        )
        undone = undone._replace(start=start)
        estimate = require_undone(estimate, undone, window.end)
        if known is not None:
            require_same_velocity(undone, known)
        return estimate

    def estimate_run(
        self,
        problem: BilevelProblem,
        teacher_params: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
    ) -> tuple[Estimate, StudentState]:
        """Run the steps and estimate the hypergradient of the final student."""
        require_reversible(problem.rule, steps)
        if not self.exact:
            require_little_drift(steps, start.params)
            end, taken = start, []
            for step in steps:
                end, moved = problem.step_with_settings(end, teacher_params, step)
                taken.append(moved)
            history = FloatHistory(end.params, end.slots.get("momentum_buffer", {}))
            estimate, undone = self._back(
                problem, teacher_params, end, taken, held_out, history, start.buffers
            )
            undone = undone._replace(start=entries_of(start.params))
            return require_undone(estimate, undone, end), end
        return self._exact(problem, teacher_params, start, steps, held_out)

    def _exact(
        self,
        problem: BilevelProblem,
        teacher_params: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
    ) -> tuple[Estimate, StudentState]:
        velocity = start.slots.get("momentum_buffer", {})
        if not is_finite(start.params) or (velocity and not is_finite(velocity)):
            return _without_estimate(problem, teacher_params, start, steps, held_out)
        history = ExactHistory.start(start.params, velocity)
        first = entries_of(history.params)
        end, taken = start, []
        for number, step in enumerate(steps):
            # the same gradient, bit for bit, that undoing the step will take
            linearised = self.product.linearise(problem, end, teacher_params, step)
            reached = {k: g for k, g in linearised.gradient.items() if k in step.settings}
            same = reached.keys() == step.settings.keys()
            settings = step.settings if same else {k: step.settings[k] for k in reached}
            taken.append(step._replace(settings=settings))
            if not history.step(taken[-1], reached):
                before = end._replace(slots={"momentum_buffer": history.velocities})
                return _without_estimate(
                    problem, teacher_params, before, steps[number:], held_out
                )
            end = StudentState(history.params, linearised.buffers, {})
            del linearised, reached  # before the next one is made
        bits = history.bits(len(steps))
        slots = {"momentum_buffer": history.velocities}
        estimate, undone = self._back(
            problem, teacher_params, end, taken, held_out, history, start.buffers
        )
        require_same_start(undone, first)
        return estimate._replace(facts={**estimate.facts, "bits": bits}), end._replace(
            slots=slots
        )

    def _back(
        self,
        problem: BilevelProblem,
        teacher_params: Params,
        end: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
        history: FloatHistory | ExactHistory,
        buffers: Params | None,
        *,
        checks_velocity: bool = False,
    ) -> tuple[Estimate, UndoneWindow]:
        loss, d_theta, total = problem.held_out_gradients(end, teacher_params, held_out)
        lengths, terms = [_length(d_theta)], [_length(total)]
        d_velocity = _through_params({}, d_theta, steps[-1])
        for step, earlier in zip(steps[:0:-1], steps[-2::-1], strict=True):
            state = end._replace(params=history.params_before(step))
            linearised = self.product.linearise(problem, state, teacher_params, step)
            mixed, hessian = linearised.mixed_and_hessian(_signed(d_velocity, step))
            require_reached(linearised.gradient, step)
            history.undo_velocity(step, linearised.gradient)
            del linearised  # before the next one is made
            total = plus(total, mixed)
            terms.append(_length(mixed))
            d_theta = plus(plus(d_theta, hessian), _decayed(d_velocity, step))
            lengths.append(_length(d_theta))
            d_velocity = _through_params(_through_velocity(d_velocity, step), d_theta, earlier)
        state = end._replace(params=history.params_before(steps[0]))
        if buffers is not None:  # those of the steps between are not kept
            state = state._replace(buffers=buffers)
        direction, gradient = _signed(d_velocity, steps[0]), None
        # in fixed point: forward mode takes 20 MiB to load, too much for one of many steps
        if self.exact or (checks_velocity and self.product.gives_gradient(problem)):
            linearised = self.product.linearise(problem, state, teacher_params, steps[0])
            gradient, last = linearised.gradient, linearised.mixed(direction)
            del linearised
        else:
            last = self.product.mixed(problem, state, teacher_params, steps[0], direction)
            if checks_velocity:
                gradient = problem.gradient(state, teacher_params, steps[0])[0]
        velocity = None
        if gradient is not None and isinstance(history, FloatHistory):
            require_reached(gradient, steps[0])
            velocity = UndoneVelocity.of(state.params, history.velocity, steps[0], gradient)
        total, processes = plus(total, last), problem.processes
        parts = processes.all_reduce(torch.stack([*terms, _length(last)]).sum())
        left = parts / _length(processes.all_reduce_params(total))
        undone = UndoneWindow(
            steps, None, state.params, end.params, lengths, d_theta, left, velocity
        )
        several, product = len(steps) > 1, self.product
        facts = facts_of(
            problem, teacher_params, state, steps[0], held_out, several=several, product=product
        )
        return Estimate(total, loss, facts), undone


def _length(params: Params) -> Tensor:
    norms = [torch.linalg.vector_norm(upcast(p)) for p in params.values()]
    return torch.linalg.vector_norm(torch.stack(norms))


def _without_estimate(
    problem: BilevelProblem,
    teacher_params: Params,
    state: StudentState,
    steps: Sequence[Step],
    held_out: Batch,
) -> tuple[Estimate, StudentState]:
    # a run that does not stay finite: its end, and NaN, which a teacher step is skipped for
    for step in steps:
        state = problem.step(state, teacher_params, step)
    with torch.no_grad():
        loss = problem.processes.all_reduce(
            problem.held_out_loss(state, teacher_params, held_out)
        )
    nothing = {k: torch.full_like(p, torch.nan) for k, p in teacher_params.items()}
    return Estimate(nothing, loss), state


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


def require_reversible(rule: UpdateRule, steps: Sequence[Step]) -> None:
    """Raise if the optimiser's steps cannot be reversed."""
    settings = [s for step in steps for s in step.settings.values()]
    if not isinstance(rule, MomentumSGD) or not all(map(_can_be_undone, settings)):
        raise UnsupportedStudentError(
            "Reversible undoes torch.optim.SGD with momentum > 0, dampening 0 and without "
            "Nesterov or clipping only. Use Unrolled or Replayed for others."
        )


def _can_be_undone(settings: Settings) -> bool:
    plain = not settings["nesterov"] and not settings["dampening"]
    return plain and settings["momentum"] > 0
