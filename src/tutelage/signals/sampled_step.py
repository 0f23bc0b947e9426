"""One step of a sampling teacher: rewards of its actions, and its other derivatives."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UsageError
from tutelage.functional.trees import detached, named_grad
from tutelage.losses.objectives import nonzero
from tutelage.per_example.forward import load_forward_mode
from tutelage.precision import upcast
from tutelage.signals.dots import weighted_slopes
from tutelage.signals.policy_gradients import counted_actions, log_prob
from tutelage.signals.products import DotProducts, DoubleBackward, only_weighs
from tutelage.teacher import implements, is_attached, normalise_of
from tutelage.types import (
    Observation,
    Params,
    PreparedBatch,
    Step,
    StepObservation,
    StudentState,
    Window,
)


@dataclass(frozen=True)
class SampledStep:
    """A step of a sampling teacher and the direction that its rewards are taken along."""

    product: DotProducts
    problem: BilevelProblem
    teacher_params: Params
    start: StudentState
    step: Step
    v: Params
    """the direction: a gradient, by the rates at which the step moved each parameter"""
    observed: StepObservation
    prepared: PreparedBatch
    """with the graph of the teacher's parameters"""
    weights: Tensor
    """[L], with that graph"""
    counted: Tensor
    """which examples' actions count, bool [B]"""

    @classmethod
    def at(
        cls,
        product: DotProducts,
        problem: BilevelProblem,
        teacher_params: Params,
        window: Window,
        gradient: Params,
        observed: StepObservation,
    ) -> "SampledStep":
        """A step as it was taken."""
        assert window.start is not None
        step = window.steps[-1]
        prepared = problem.prepare(teacher_params, step.batch)
        observation = observed.observation
        weights = problem.weights(teacher_params, prepared, observation, step.batch.seed)
        if prepared.log_prob is not None:
            require_own_weights(problem, teacher_params, prepared, observation, step)
        counted = counted_actions(problem, prepared, len(step.batch.ids))
        given = product, problem, teacher_params, window.start, step
        v = scaled_by_rates(gradient, step)
        return cls(*given, v, observed, prepared, weights, counted)

    def rewards(self) -> Tensor:
        """Pseudo-values of the training loss's derivative along the direction."""
        weights = self.weights.detach()
        if not is_attached(self.problem.teacher):
            return self._pseudo_values(self.dots, weights)
        teacher_params, prepared = detached(self.teacher_params), self.observed.prepared
        slopes = weighted_slopes(
            self.problem, teacher_params, self.start, self.step, self.v, prepared
        )
        with torch.no_grad():
            observation, seed = self.observed.observation, self.step.batch.seed
            losses = self.problem.row_losses(teacher_params, prepared, observation, seed)
            weights = weights.reshape(losses.shape).to(losses.dtype)
        load_forward_mode()
        with torch.no_grad(), dual_level():
            moving = (make_dual(x, dx) for x, dx in zip((losses, weights), slopes, strict=True))
            primal, tangent = unpack_dual(self._pseudo_values(*moving))
        return torch.zeros_like(primal) if tangent is None else tangent

    def derivative(self) -> Params:
        """The teacher's gradient of the training loss's derivative along the direction."""
        if not only_weighs(self.problem, self.prepared):
            return DoubleBackward().mixed(
                self.problem, self.start, self.teacher_params, self.step, self.v
            )
        if not self.weights.requires_grad:
            return {k: torch.zeros_like(p) for k, p in self.teacher_params.items()}
        reduced = self.problem.reduce(self.dots, self.weights, self.prepared)
        return named_grad(reduced, self.teacher_params)

    @cached_property
    def dots(self) -> Tensor:
        """``<d l_i / d theta, v>`` [L]; 0 for rows of weight 0, unless it is learned."""
        return self.product.dots_of_step(
            self.problem,
            self.start,
            self.teacher_params,
            self.step,
            self.v,
            self.observed,
            weighted_only=not self.weights.requires_grad,
        )

    def _pseudo_values(self, values: Tensor, weights: Tensor) -> Tensor:
        prepared = self.observed.prepared
        return pseudo_values(self.problem, values, weights, prepared, self.counted)


def scaled_by_rates(gradient: Params, step: Step) -> Params:
    """Scale a direction by each parameter's learning rate relative to the highest."""
    rates = {k: -s["lr"] if s["maximize"] else s["lr"] for k, s in step.settings.items()}
    highest = max((abs(rate) for rate in rates.values()), default=0.0)
    if highest == 0.0:  # no parameter moved at all
        rates, highest = {k: -1.0 if step.settings[k]["maximize"] else 1.0 for k in rates}, 1.0
    return {
        k: gradient[k] if rate == highest else gradient[k] * (rate / highest)
        for k, rate in rates.items()
    }


def require_own_weights(
    problem: BilevelProblem,
    teacher_params: Params,
    prepared: PreparedBatch,
    observation: Observation,
    step: Step,
) -> None:
    """Raise if weights depend on what was sampled for other examples.

    Half of the examples get another one's place, the one of the highest loss and that of the
    lowest; the other half's weights are to stay as they are.
    """
    if not implements(problem.teacher, "weigh") or len(observation.losses) < 2:
        return
    kept = prepared.group < (prepared.group.max() + 1) // 2
    before = _weights_and_log_probs(problem, teacher_params, prepared, observation, step, kept)
    for row in (observation.losses.argmax(), observation.losses.argmin()):
        places = torch.arange(len(kept), device=kept.device).where(kept, row)
        other = _rows_at(prepared, places), _observation_at(observation, places)
        after = _weights_and_log_probs(problem, teacher_params, *other, step, kept)
        rounding = torch.finfo(after.dtype).eps ** 0.5
        if not torch.allclose(after, before, rounding, rounding, equal_nan=True):
            raise UsageError(
                f"{type(problem.teacher).__name__} samples in prepare and weighs a row by the "
                "other rows of its batch, so that an action changes the weights of other "
                "examples, which its own reward does not include. Weigh each row by itself, or "
                "use NextStepLoss."
            )


def _weights_and_log_probs(
    problem: BilevelProblem,
    teacher_params: Params,
    prepared: PreparedBatch,
    observation: Observation,
    step: Step,
    kept: Tensor,
) -> Tensor:
    # the weights of some rows, and the log-probabilities of their examples
    teacher_params = detached(teacher_params)
    examples = int(prepared.group[kept].max()) + 1 if kept.any() else 0
    with torch.no_grad():
        weights = problem.weights(teacher_params, prepared, observation, step.batch.seed)
        chosen = log_prob(problem, teacher_params, step, observation, prepared)
    return torch.cat([upcast(weights)[kept].flatten(), upcast(chosen)[:examples].flatten()])


def _rows_at(prepared: PreparedBatch, places: Tensor) -> PreparedBatch:
    aux = None if prepared.aux is None else prepared.aux[places]
    inputs, targets, ids = (x[places] for x in prepared[:3])
    return prepared._replace(inputs=inputs, targets=targets, ids=ids, aux=aux)


def _observation_at(observation: Observation, places: Tensor) -> Observation:
    features = {name: feature[places] for name, feature in observation.features.items()}
    return observation._replace(
        losses=observation.losses[places], logits=observation.logits[places], features=features
    )


def pseudo_values(
    problem: BilevelProblem,
    values: Tensor,
    weights: Tensor,
    prepared: PreparedBatch,
    counted: Tensor,
) -> Tensor:
    """``N R - (N - 1) R_{-i}``: R is reduced over all N examples, ``R_{-i}`` over the others.

    The reduction is that of the loss, so that R counts rows by their weights. For equal weights
    ``R`` is a mean and the i-th pseudo-value the i-th value itself. ``R_{-i}`` does not depend
    on what was sampled for example i, as long as that changes no other row or weight: with the
    i-th pseudo-value or with ``N R`` for a reward, the expected score is the same, and the
    pseudo-value leaves out the noise of the other examples' actions.

    Source: Quenouille 1956, Tukey 1958, for the jackknife's pseudo-values.
    """
    values = upcast(values)
    weights = weights.reshape(values.shape).to(values.dtype)
    own, mass = _by_example(problem, values, weights, prepared, len(counted))
    number = counted.sum().to(values.dtype)
    number, whole, whole_mass = problem.processes.all_reduce(
        torch.stack([number, own.sum(), mass.sum()])
    ).unbind()
    others = (whole - own) / nonzero(whole_mass - mass)
    relative = number / nonzero(whole_mass)
    found = relative * own + (1 - relative * mass) * others
    return found.where(counted, 0)


def _by_example(
    problem: BilevelProblem,
    values: Tensor,
    weights: Tensor,
    prepared: PreparedBatch,
    examples: int,
) -> tuple[Tensor, Tensor]:
    # a_i and m_i of R = sum_i a_i / sum_i m_i
    shares, group = row_shares(problem, values, prepared), prepared.group
    if problem.processes.size == 1 and len(shares):  # in any unit; equal ones are exactly 1
        shares = shares / nonzero(shares.max())
    zeros = values.new_zeros(examples)
    summed = zeros.index_add(0, group, shares * weights * values)
    rule = normalise_of(problem.teacher)
    if rule == "mean":
        return summed, zeros.index_add(0, group, shares * weights)
    mass = zeros.index_add(0, group, shares)
    if rule == "group":
        return mass * summed / nonzero(zeros.index_add(0, group, shares * weights)), mass
    return summed, mass


def row_shares(problem: BilevelProblem, values: Tensor, prepared: PreparedBatch) -> Tensor:
    """The share of each row in the student's loss where all weights are equal."""
    with torch.enable_grad():
        zeros = torch.zeros_like(values.detach(), requires_grad=True)
        reduced = problem.reduce(zeros, torch.ones_like(zeros), prepared)
        return torch.autograd.grad(reduced, zeros)[0]
