"""Learning to teach (L2T-data): a reward for students that reach an accuracy early."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer

from tutelage.errors import UsageError
from tutelage.functional.trees import is_finite, plus
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.losses.reduction import counts_of
from tutelage.losses.targets import correct_predictions
from tutelage.randomness import mixed_seed
from tutelage.signals import Score
from tutelage.training.forward import prediction_batch
from tutelage.training.teacher_update import step_if_finite
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Params


class AccuracyGoal(NamedTuple):
    """When an episode ends."""

    accuracy: float
    """tau: held-out accuracy to reach, in 0..1"""
    steps: int
    """T': student steps after which it is given up"""
    every: int = 1
    """student steps between two evaluations"""


class RewardedEpisode(NamedTuple):
    """One student's run, and the teacher step after it."""

    number: int
    steps: int
    """student steps until the goal, or until it was given up"""
    reached: bool
    best_accuracy: float
    """held-out, in 0..1"""
    reward: float
    """``-log(steps / T')``; 0 where the goal was not reached"""
    baseline: float
    """the moving average of rewards with this one"""
    skipped: bool
    """whether the gradient was not finite, so that the teacher took no step"""


def rewarded(
    make_student: Callable[[int], tuple[nn.Module, Optimizer]],
    teacher: nn.Module,
    teacher_optimizer: Optimizer,
    batches: Callable[[int], Iterable[Batch]],
    held_out: Sequence[Batch],
    *,
    goal: AccuracyGoal,
    decay: float,
    baseline: float | None = None,
    first: int = 0,
    objective: Objective = cross_entropy,
    seed: int = 0,
) -> Iterator[RewardedEpisode]:
    """Train fresh students under a teacher that samples, a teacher step after each; endless.

    The step ascends ``(r - b) sum_t (1/B) sum_i log p(a_ti)``: all that was sampled in a run is
    rewarded alike, by ``r = -log(i / T')`` with i the step at which the goal was reached. b is
    the moving average of the rewards before; the first episode is compared with itself alone,
    which teaches nothing. The teacher stays as it is while a student trains.

    Source: Fan et al. 2018, Learning to Teach, section 4 and algorithm 1. The paper sums over
    the examples of a batch, a constant factor. How its average decays is not known to us.

    Args:
        make_student: From an episode's number to a student and its optimiser.
        teacher: One that samples, such as ``KeepOrDrop``.
        teacher_optimizer: Its optimiser.
        batches: From an episode's number to the batches of that student's run; T' are used.
        held_out: Batches on which the accuracy is measured.
        goal: When an episode ends.
        decay: Of the moving average, per episode.
        baseline: The average so far, of a run to continue.
        first: The number of the first episode.
        objective: Logits [L, C] and targets to losses [L]; see ``tutelage.losses``.
        seed: Where the randomness of what is sampled and of dropout starts from.

    Yields:
        One record per student.

    Note: while no student reaches the goal, or all do at the same step, nothing is learned.
    Raises ``UsageError`` where the goal or ``decay`` means nothing, or an episode has too
    few batches.
    """
    _require_sound(goal, decay)
    number = first
    while True:
        tutor = Tutor(
            *make_student(number),
            teacher,
            teacher_optimizer,
            signal=Score(),
            aggregate=goal.steps + 1,  # the teacher's step waits for the reward
            total_steps=goal.steps,
            objective=objective,
            seed=mixed_seed(seed, number),
        )
        tutor.cautions = None  # the teacher steps after the episode, not in it
        score, reached = _run(tutor, islice(batches(number), goal.steps), held_out, goal)
        reward = -math.log(tutor.steps / goal.steps) if reached else 0.0
        known = reward if baseline is None else baseline
        grad = {k: (reward - known) * g for k, g in score.items()}
        skipped = not is_finite(grad)
        if not skipped and reward != known:
            own = dict(teacher.named_parameters())
            skipped = not step_if_finite(teacher_optimizer, own, grad)
        baseline = decay * known + (1 - decay) * reward
        yield RewardedEpisode(
            number, tutor.steps, reached, tutor.best_accuracy, reward, baseline, skipped
        )
        number += 1


def _run(
    tutor: Tutor, batches: Iterable[Batch], held_out: Sequence[Batch], goal: AccuracyGoal
) -> tuple[Params, bool]:
    # the score of all that was sampled, and whether the goal was reached
    learner = tutor.teacher_updater
    assert learner is not None
    score = {k: torch.zeros_like(p) for k, p in learner.params.items()}
    for batch in batches:
        tutor.step(batch, batch)
        score = plus(score, learner.estimates.pop().grad)
        if tutor.steps % goal.every == 0 or tutor.steps == goal.steps:
            found = held_out_accuracy(tutor, held_out)
            tutor.best_accuracy = max(tutor.best_accuracy, found)
            if found >= goal.accuracy:
                return score, True
    if tutor.steps < goal.steps:
        raise UsageError(
            f"The goal allows {goal.steps} steps, but there are batches for {tutor.steps}: "
            "give as many batches, or a goal of fewer steps."
        )
    return score, False


@torch.no_grad()
def held_out_accuracy(tutor: Tutor, held_out: Iterable[Batch]) -> float:
    """Accuracy of the student in evaluation mode.

    Examples without a label are not counted; 0 where none has one.
    """
    student, mode = tutor.student, tutor.student.training
    student.eval()
    right = [
        correct_predictions(
            student(prediction_batch(tutor.problem, batch).inputs),
            batch.targets,
            counts_of(tutor.problem.objective, batch.targets),
        )
        for batch in held_out
    ]
    student.train(mode)
    found = torch.cat(right)
    return float(found.sum()) / max(len(found), 1)


def _require_sound(goal: AccuracyGoal, decay: float) -> None:
    if not 0 < goal.accuracy <= 1:
        raise UsageError(f"accuracy is a share in (0, 1], got {goal.accuracy}.")
    if not 1 <= goal.every <= goal.steps:
        raise UsageError(
            f"every must lie between 1 and steps, got {goal.every} of {goal.steps}."
        )
    if not 0 <= decay < 1:
        raise UsageError(f"decay must lie in [0, 1), got {decay}.")
