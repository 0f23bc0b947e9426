"""Policy gradients of sampling teachers."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UsageError
from tutelage.functional.replay_context import replay_context
from tutelage.functional.trees import named_grad, plus
from tutelage.losses.reduction import counts_of, nonzero
from tutelage.losses.targets import apply_to_labelled_examples
from tutelage.precision import upcast
from tutelage.signals.dots import observe_step
from tutelage.signals.signal import EvaluateOn
from tutelage.teacher import acts_at_test, implements
from tutelage.teachers.hook_calls import entropy
from tutelage.teachers.hook_calls import log_prob as call_log_prob
from tutelage.types import (
    Batch,
    Estimate,
    HeldOutLoss,
    Observation,
    Params,
    PreparedBatch,
    Step,
    StepObservation,
    Window,
)
from tutelage.validation.ranges import require_not_negative

Normalise = Literal["standard", "mean", "none"]
TINY = 1e-8
"""keeps the deviation of rewards that are all alike from dividing by zero"""


def evaluated_step(
    problem: BilevelProblem, teacher_params: Params, window: Window, held_out: Batch
) -> tuple[Step, HeldOutLoss, StepObservation]:
    """The window's step, the held-out loss after it, and its observation."""
    assert window.start is not None
    step = window.steps[-1]
    evaluation = window.held_out_loss or problem.held_out_gradients(
        window.end, teacher_params, held_out
    )
    return (
        step,
        evaluation,
        window.observed or observe_step(problem, teacher_params, window.start, step),
    )


def policy_gradient(
    problem: BilevelProblem,
    teacher_params: Params,
    step: Step,
    observed: StepObservation,
    reward: Tensor,
    prepared: PreparedBatch | None = None,
) -> Params:
    """``-(1/N) sum_i r_i d log p(a_i) / d phi`` (REINFORCE), over the N examples that count.

    Source: Williams 1992; Müller et al. 2021, equation 3, whose factor theorem 1 has.
    """
    chosen = upcast(log_prob(problem, teacher_params, step, observed.observation, prepared))
    if chosen.shape != reward.shape:  # which might broadcast
        raise ValueError(
            f"{type(problem.teacher).__name__} gives a log_prob of shape {list(chosen.shape)}; "
            f"one for each example of the batch is needed: {list(reward.shape)}."
        )
    counted = counted_actions(problem, observed.prepared, len(chosen))
    reward = reward.to(chosen.dtype).where(counted, 0)
    number = nonzero(problem.processes.all_reduce(counted.sum().to(chosen.dtype)))
    return named_grad(-(reward * chosen).sum() / number, teacher_params)


def log_prob(
    problem: BilevelProblem,
    teacher_params: Params,
    step: Step,
    observation: Observation,
    prepared: PreparedBatch | None = None,
) -> Tensor:
    """The log-probability [B] of what the teacher sampled at a step, in both hooks."""
    prepared = problem.prepare(teacher_params, step.batch) if prepared is None else prepared
    in_prepare = prepared.log_prob  # an example's action counts there without a label, too
    if in_prepare is not None and not implements(problem.teacher, "log_prob"):
        return in_prepare
    counts = counts_of(problem.objective, prepared.targets)
    with replay_context(prepared, problem.local_seed(step.batch.seed + 2)):
        hook = partial(call_log_prob, problem.teacher, teacher_params)
        without = prepared._replace(log_prob=None)
        in_weights = apply_to_labelled_examples(hook, without, observation, counts)
    return in_weights if in_prepare is None else in_prepare + in_weights


def counted_actions(problem: BilevelProblem, prepared: PreparedBatch, examples: int) -> Tensor:
    """Which examples' actions count, bool [B]: those of which a row has a label."""
    counts = counts_of(problem.objective, prepared.targets)
    if counts is None or prepared.log_prob is not None:
        return torch.ones(examples, dtype=torch.bool, device=prepared.ids.device)
    return counts.new_zeros(examples).index_add(0, prepared.group, counts) > 0


def require_rewarding(problem: BilevelProblem, evaluate_on: EvaluateOn) -> None:
    """Raise if the teacher changes the held-out loss other than by the step."""
    if evaluate_on == "held-out" and acts_at_test(problem.teacher):
        raise UsageError(
            f"{type(problem.teacher).__name__} acts at test, so that the held-out loss "
            "depends on "
            "it directly; a reward gives what the step changed alone. Give evaluate_on='next', "
            "or a signal that differentiates, such as Lookahead."
        )


def normalised(
    rewards: Tensor,
    how: Normalise,
    total: Callable[[Tensor], Tensor] = lambda x: x,
    counted: Tensor | None = None,
) -> Tensor:
    """Rewards less their mean, divided by their standard deviation."""
    if how == "none":
        return rewards
    rewards = upcast(rewards)
    counted = torch.ones_like(rewards, dtype=torch.bool) if counted is None else counted
    rows, summed = total(torch.stack([counted.sum().to(rewards.dtype), rewards.sum()]))
    centred = (rewards - summed / nonzero(rows)).where(counted, 0)
    if how == "mean":
        return centred
    deviation = (total(centred.square().sum()) / (rows - 1).clamp(min=1)).sqrt()
    return centred / (deviation + TINY)


def weighted_mean(estimates: Sequence[Estimate], weights: Tensor) -> Params:
    """``(1/N) sum_t w_t grad_t``."""
    total = {k: torch.zeros_like(g) for k, g in estimates[0].grad.items()}
    for estimate, weight in zip(estimates, weights.tolist(), strict=True):
        total = plus(total, estimate.grad, weight / len(estimates))
    return total


def with_entropy(
    problem: BilevelProblem, teacher_params: Params, grad: Params, weight: float
) -> Params:
    """Add the gradient of minus the entropy of what is sampled."""
    if not weight:
        return grad
    return plus(
        grad, named_grad(entropy(problem.teacher, teacher_params), teacher_params), -weight
    )


def require_options(evaluate_on: str, normalise: str, entropy: float) -> None:
    """Raise for unknown options or a negative entropy weight."""
    for name, value, allowed in (
        ("evaluate_on", evaluate_on, get_args(EvaluateOn)),
        ("normalise", normalise, get_args(Normalise)),
    ):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value}.")
    require_not_negative("entropy", entropy)
