"""What rewards make of log-probabilities: the policy gradient and what goes with it."""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from tutelage.ranges import require_not_negative
from tutelage.records import Batch, Estimate, Judgement, Params, Step, Window, Witness
from tutelage.signals.dots import seen_again
from tutelage.signals.protocol import Judge
from tutelage.task import Task
from tutelage.teaching import entropy
from tutelage.trees import named_grad, plus, wide

Normalise = Literal["standard", "mean", "none"]
TINY = 1e-8
"""keeps the deviation of rewards that are all alike from dividing by zero"""


def judged(
    task: Task, teacher: Params, window: Window, held_out: Batch
) -> tuple[Step, Judgement, Witness]:
    """The step that is rewarded, what came of it, and what was seen of it.

    Args:
        task: The student learning under the teacher.
        teacher: Teacher parameters, requiring grad.
        window: The step, with the state before it.
        held_out: The batch that judges, where the window does not hold the verdict.

    Returns:
        All three.
    """
    assert window.start is not None
    step = window.steps[-1]
    verdict = window.judgement or task.judge(window.end, teacher, held_out)
    return step, verdict, window.witness or seen_again(task, teacher, window.start, step)


def policy_gradient(
    task: Task, teacher: Params, step: Step, witness: Witness, reward: Tensor
) -> Params:
    """``-(1/B) sum_i r_i d log p(a_i) / d phi`` (REINFORCE).

    Args:
        task: The student learning under the teacher.
        teacher: Teacher parameters as they were when it sampled, requiring grad.
        step: The step.
        witness: What was seen of it.
        reward: [B].

    Returns:
        Keyed like the teacher: what a teacher that descends should follow.

    Raises:
        ValueError: If there is not one log-probability for each example.

    Source: Williams 1992; Müller et al. 2021, equation 3, whose factor theorem 1 has.
    """
    chosen = wide(task.log_prob(teacher, step, witness.seen))
    if chosen.shape != reward.shape:  # which might broadcast
        raise ValueError(
            f"{type(task.teacher).__name__} gives a log_prob of shape {list(chosen.shape)}; "
            f"one for each example of the batch is needed: {list(reward.shape)}."
        )
    rows = task.processes.total(chosen.new_full((), len(chosen)))
    return named_grad(-(reward.to(chosen.dtype) * chosen).sum() / rows, teacher)


def normalised(
    rewards: Tensor, how: Normalise, total: Callable[[Tensor], Tensor] = lambda x: x
) -> Tensor:
    """Rewards with their mean taken off and divided by their deviation, or part of that.

    Args:
        rewards: [N].
        how: See ``GradientAlignment``.
        total: The sum of numbers over all processes, where several have rewards.

    Returns:
        [N]; a single reward becomes zero unless ``how`` is "none".
    """
    if how == "none":
        return rewards
    rewards = wide(rewards)
    rows, summed = total(torch.stack([rewards.new_full((), len(rewards)), rewards.sum()]))
    centred = rewards - summed / rows
    if how == "mean":
        return centred
    deviation = (total(centred.square().sum()) / (rows - 1).clamp(min=1)).sqrt()
    return centred / (deviation + TINY)


def weighted_mean(estimates: Sequence[Estimate], weights: Tensor) -> Params:
    """``(1/N) sum_t w_t grad_t``.

    Args:
        estimates: N of them.
        weights: [N].

    Returns:
        Keyed like their gradients.
    """
    total = {k: torch.zeros_like(g) for k, g in estimates[0].grad.items()}
    for estimate, weight in zip(estimates, weights.tolist(), strict=True):
        total = plus(total, estimate.grad, weight / len(estimates))
    return total


def with_entropy(task: Task, teacher: Params, grad: Params, weight: float) -> Params:
    """A gradient that also ascends the entropy of what the teacher samples.

    Args:
        task: The student learning under the teacher.
        teacher: Teacher parameters, requiring grad.
        grad: What a teacher that descends follows.
        weight: Of the entropy.

    Returns:
        Keyed like ``grad``.
    """
    if not weight:
        return grad
    return plus(grad, named_grad(entropy(task.teacher, teacher), teacher), -weight)


def require_sound(judge: str, normalise: str, entropy: float) -> None:
    """Refuse words that nobody knows, which would pass for others, and a descended entropy.

    Args:
        judge: Who judges.
        normalise: What is done to rewards.
        entropy: Weight of the entropy.

    Raises:
        ValueError: If one of them has no meaning.
    """
    for name, value, allowed in (
        ("judge", judge, get_args(Judge)),
        ("normalise", normalise, get_args(Normalise)),
    ):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value}.")
    require_not_negative("entropy", entropy)
