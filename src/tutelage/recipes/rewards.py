"""Rewards for what was sampled at a step, from the step after it, and the teacher's step."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from tutelage.alignments import forward_dots
from tutelage.records import Batch, Lesson, Params, Progress, Step, StudentState, as_lesson
from tutelage.teaching import prepare
from tutelage.tutor import Tutor


class Taken(NamedTuple):
    """A student step, with what the reward of the step before needs of it."""

    before: StudentState
    batch: Batch
    loss: Tensor
    """scalar: mean loss of the batch at ``before``"""
    grad: Params
    """its gradient, without weight decay"""


Reward = Callable[[Tutor, Sequence[Taken]], Tensor]
"""from T + 1 steps to the rewards [T, B], or [T, 1], of all but the last"""


def take(tutor: Tutor, batch: Batch) -> Taken:
    """Take one student step.

    Args:
        tutor: The student.
        batch: What it sees.

    Returns:
        The step.
    """
    before = tutor.task.student.snapshot()
    loss = tutor.step(batch).loss
    params = tutor.task.student.params.items()
    grad = {name: p.grad for name, p in params if p.grad is not None}
    return Taken(before, batch, loss, grad)


def gradient_alignment(tutor: Tutor, window: Sequence[Taken]) -> Tensor:
    """``r_i = <grad l_i(theta_t), grad L(theta_{t+1})>``, normalised over each batch.

    Args:
        tutor: The student.
        window: T + 1 steps, each on a batch of B.

    Returns:
        Rewards [T, B].

    Note: with batch normalisation it includes what an example does to the others' losses.
    Source: Müller et al. 2021, In-Loop Meta-Learning with Gradient-Alignment Reward.
    """
    pairs = pairwise(window)
    return torch.stack([normalised(_dots(tutor, one, after.grad)) for one, after in pairs])


def _dots(tutor: Tutor, taken: Taken, v: Params) -> Tensor:
    state, step = taken.before, Step(taken.batch, Progress(), {})

    def losses(params: Params) -> Tensor:
        moved = state._replace(params=state.params | params)
        return tutor.task.observe(moved, as_lesson(taken.batch), step)[0].losses

    return forward_dots(losses, state.params, v)


def next_step_loss(_tutor: Tutor, window: Sequence[Taken]) -> Tensor:
    """``r_i = -L(theta_{t+1})`` for every example, normalised over the window.

    Args:
        _tutor: The student.
        window: T + 1 steps.

    Returns:
        Rewards [T, 1].

    Source: Müller et al. 2021, the baseline NSLR.
    """
    return normalised(torch.stack([-after.loss for after in window[1:]])).unsqueeze(1)


def normalised(rewards: Tensor) -> Tensor:
    """``(r - mean) / (std + 1e-8)``; a single reward becomes zero.

    Args:
        rewards: One or more.

    Returns:
        As many.
    """
    centred = rewards - rewards.mean()
    return centred if len(rewards) < 2 else centred / (rewards.std() + 1e-8)


def reinforce(tutor: Tutor, learner: Optimizer, window: Sequence[Taken], r: Tensor) -> None:
    """One teacher step that ascends the mean of ``r_i log p(a_i)``.

    Args:
        tutor: The student with a teacher whose lessons have a ``log_prob``.
        learner: The teacher's optimiser.
        window: T + 1 steps, sampled by the teacher as it stands.
        r: Rewards [T, B], or [T, 1].
    """
    log_prob = torch.stack([
        _log_prob(prepare(tutor.teacher, {}, s.batch)) for s in window[:-1]
    ])
    learner.zero_grad()
    (-(r * log_prob).mean()).backward()
    learner.step()


def _log_prob(lesson: Lesson) -> Tensor:
    assert lesson.log_prob is not None
    return lesson.log_prob
