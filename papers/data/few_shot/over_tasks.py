"""A figure's mean over tasks, and how far it can be trusted."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch

from papers.data.few_shot.episodes import Episode
from tutelage.errors import UsageError

_NORMAL_95 = 1.96


class TaskMean(NamedTuple):
    """The mean of a figure over tasks; ``mean - half`` to ``mean + half`` is its interval."""

    mean: float
    half: float
    """half the width of the 95% interval"""
    tasks: int


def over_tasks(judge: Callable[[Episode], float], tasks: Iterable[Episode]) -> TaskMean:
    """The mean of what a judge says of every task, with its 95% interval.

    It is a UsageError if there are fewer than two tasks.
    """
    return mean_and_interval([judge(task) for task in tasks])


def mean_and_interval(values: Sequence[float]) -> TaskMean:
    """The mean and ``1.96 std / sqrt(n)``, with the standard deviation over n - 1.

    The interval is about tasks alone: it says nothing of how another training run would fare.
    """
    if len(values) < 2:
        raise UsageError(
            f"{len(values)} tasks give no interval; allowed: 2 and above, the papers take 1000."
        )
    figures = torch.tensor(values, dtype=torch.float64)
    half = _NORMAL_95 * float(figures.std()) / math.sqrt(len(values))
    return TaskMean(float(figures.mean()), half, len(values))
