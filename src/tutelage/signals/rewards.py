"""Rewards of sampling teachers: ``GradientAlignment`` and ``NextStepLoss``."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from tutelage.bilevel import BilevelProblem
from tutelage.functional.trees import plus
from tutelage.losses.reduction import nonzero
from tutelage.precision import upcast
from tutelage.signals.policy_gradients import (
    Normalise,
    evaluated_step,
    normalised,
    policy_gradient,
    require_options,
    require_rewarding,
    weighted_mean,
    with_entropy,
)
from tutelage.signals.products import Automatic, DotProducts
from tutelage.signals.sampled_step import SampledStep
from tutelage.signals.signal import EvaluateOn, OneStep, gradient_of_updated
from tutelage.types import Batch, Estimate, HeldOutLoss, Params, Window


@dataclass(frozen=True)
class GradientAlignment(OneStep):
    """The reward ``r_i = <grad l_i(theta_t), grad L(theta_{t+1})>``, for sampling teachers.

    The reward of example i is the dot product of its gradient with that of the loss after the
    step. Actions of examples that align become more likely: ascends
    ``(1/B) sum_i r_i log p(a_i)``. For plain SGD that is, in
    expectation and up to the learning rate, the exact gradient of ``L(theta_{t+1})`` (theorem
    1); the factors that momentum, Adam or clipping put between are left out, as in the paper.
    Where groups of parameters have rates of their own, the rate is the highest of them.

    Where rows have weights, or an example several rows, the training loss is no plain mean of
    the ``l_i``, and r_i is the pseudo-value ``B D - (B - 1) D_{-i}`` in place: D is the
    derivative along ``grad L(theta_{t+1})`` of the training loss, weights and their
    normalisation included, and ``D_{-i}`` that of the same loss without example i. For equal
    weights it is the paper's; for weights that are not normalised, ``w_i`` times the paper's.

    What the teacher's parameters change without sampling, such as learned weights, is
    differentiated as ``Lookahead`` does, and added as it is, without the learning rate.

    ``"standard"`` rewards have mean 0 and deviation 1 over the batch, ``"mean"`` only the mean
    taken off (a baseline), ``"none"`` are as they are. ``facts["reward"]`` is the mean before
    that. Left out, as in the paper: what an action does to other examples' losses by batch
    statistics.

    Raises:
        ValueError: If ``evaluate_on`` or ``normalise`` is unknown, or ``entropy`` negative.

    Note: refused by a ``UsageError`` are teachers that act at test with
    ``evaluate_on="held-out"``, and weights that depend on other examples beside a teacher that
    samples in ``prepare``.

    Source: Müller et al. 2021, In-Loop Meta-Learning with Gradient-Alignment Reward; Tukey
    1958 for pseudo-values. The reward under weights is ours.
    """

    product: DotProducts = field(default_factory=Automatic)
    """how the dot products are taken"""
    evaluate_on: EvaluateOn = "next"
    normalise: Normalise = "standard"
    entropy: float = 0.0
    """weight of the entropy of what is sampled, which is ascended too"""
    steps: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        require_options(self.evaluate_on, self.normalise, self.entropy)

    def check(self, problem: BilevelProblem) -> None:
        """Refuse what the product does not work with."""
        self.product.check(problem)

    def records(self, problem: BilevelProblem) -> bool:
        """Whether to record the step's passes."""
        return self.product.records(problem)

    def __call__(
        self, problem: BilevelProblem, teacher_params: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate the policy gradient."""
        sampled, evaluation = self.sampled_step(problem, teacher_params, window, held_out)
        reward, total = upcast(sampled.rewards()), problem.processes.all_reduce
        step, observed, counted = sampled.step, sampled.observed, sampled.counted
        weights = normalised(reward, self.normalise, total, counted)
        found = policy_gradient(
            problem, teacher_params, step, observed, weights, sampled.prepared
        )
        rows, summed = total(torch.stack([counted.sum().to(reward), reward.sum()]))
        facts = {"reward": float(summed / nonzero(rows))}
        return Estimate(plus(found, sampled.derivative(), -1.0), evaluation.loss, facts)

    def sampled_step(
        self, problem: BilevelProblem, teacher_params: Params, window: Window, held_out: Batch
    ) -> tuple[SampledStep, HeldOutLoss]:
        """The sampled step, its ``rewards()`` not yet normalised, and the held-out loss."""
        require_rewarding(problem, self.evaluate_on)
        step, evaluation, observed = evaluated_step(problem, teacher_params, window, held_out)
        gradient = gradient_of_updated(problem, evaluation, step)
        return SampledStep.at(
            self.product, problem, teacher_params, window, gradient, observed
        ), evaluation

    def combine(
        self, problem: BilevelProblem, teacher_params: Params, estimates: Sequence[Estimate]
    ) -> Params:
        """The mean of the estimates, with the entropy's gradient."""
        equal = torch.ones(len(estimates))
        return with_entropy(
            problem, teacher_params, weighted_mean(estimates, equal), self.entropy
        )


@dataclass(frozen=True)
class NextStepLoss(OneStep):
    """The reward ``-L(theta_{t+1})``, the same for all that was sampled at a step.

    One number per step says little about each example; it is the baseline that gradient
    alignment improves on. It is normalised over the steps that make one teacher step, so give
    the tutor ``aggregate`` above 1, or take ``normalise="none"``. ``facts["reward"]`` is what
    it was before. What the teacher's parameters change without sampling, such as learned
    weights, is not learned.

    Raises:
        ValueError: If ``evaluate_on`` or ``normalise`` is unknown, or ``entropy`` negative.

    Note: a teacher that acts at test is refused by a ``UsageError`` with
    ``evaluate_on="held-out"``.

    Source: Müller et al. 2021, section 4 (NSLR).
    """

    evaluate_on: EvaluateOn = "next"
    normalise: Normalise = "standard"
    entropy: float = 0.0
    """weight of the entropy of what is sampled, which is ascended too"""
    steps: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        require_options(self.evaluate_on, self.normalise, self.entropy)

    def __call__(
        self, problem: BilevelProblem, teacher_params: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate the policy gradient for a reward of one."""
        require_rewarding(problem, self.evaluate_on)
        step, evaluation, observed = evaluated_step(problem, teacher_params, window, held_out)
        one = torch.ones(len(step.batch.ids), device=evaluation.loss.device)
        found = policy_gradient(problem, teacher_params, step, observed, one)
        return Estimate(found, evaluation.loss, {"reward": -float(evaluation.loss)})

    def combine(
        self, problem: BilevelProblem, teacher_params: Params, estimates: Sequence[Estimate]
    ) -> Params:
        """The estimates weighted by normalised rewards, with the entropy's gradient."""
        rewards = torch.tensor([e.facts["reward"] for e in estimates], dtype=torch.float64)
        weights = normalised(rewards, self.normalise)
        return with_entropy(
            problem, teacher_params, weighted_mean(estimates, weights), self.entropy
        )
