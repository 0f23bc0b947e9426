"""Few-shot tasks for the recipe that learns where a student starts: data and measures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import SGD

from tutelage.data.batches import statistics
from tutelage.data.few_shot.benchmarks import few_shot
from tutelage.data.few_shot.class_sets import ClassParts
from tutelage.data.few_shot.episodes import Episode, Episodes
from tutelage.data.few_shot.spoiling import UNSPOILT, Spoiling
from tutelage.data.images import ImageSet
from tutelage.data.local import load_known
from tutelage.few_shot import accuracy, adapt, adaptation, weights_at
from tutelage.models import FourBlockCNN, FourBlocks
from tutelage.objectives import cross_entropy
from tutelage.randomness import mixed_seed, seeded
from tutelage.student import StudentView
from tutelage.task import Task
from tutelage.teachers import Plain, SupportWeights

WAYS, SIDE = 5, 32


@dataclass(frozen=True)
class Settings:
    """What decides a job; the defaults are the paper's, or ours where it says nothing."""

    width: int = 32
    """channels of student and teacher"""
    queries: int = 15
    """of each class in a task"""
    steps: int = 5
    """of a student on a support set, while the start is learned"""
    test_steps: int = 15
    lr: float = 0.01
    """of SGD on a support set"""
    start_steps: int = 15_000
    """of the start and of the teacher"""
    start_lr: float = 1e-3
    """of Adam on both"""
    group: int = 4
    """tasks for each of these steps"""
    tested: int = 1000
    """tasks"""
    spoilt: float = 0.4
    """probability that a support image's pixels are shuffled, in the arms that say so"""


@cache
def data() -> tuple[ClassParts, ImageSet]:
    """What tasks are drawn from, read once in each process.

    Returns:
        The classes of CIFAR-FS, and MNIST's test digits as colour images of the same size.
    """
    digits = load_known("mnist").test
    wide = F.pad(digits.images, (2, 2, 2, 2)).expand(-1, 3, -1, -1)
    return few_shot("cifar-fs"), replace(digits, images=wide)


@cache
def scale() -> tuple[Tensor, Tensor]:
    """By what images are normalised.

    Returns:
        Mean and standard deviation [3] of the classes that the start is learned from.
    """
    return statistics(data()[0].train)


def task_for(arm: str, of: Settings, seed: int, device: torch.device) -> Task:
    """A student at a random start, and a teacher that knows nothing yet.

    Args:
        arm: One of the recipe's arms.
        of: The settings.
        seed: Of both.
        device: Where they live.

    Returns:
        Both, with plain SGD for the steps on a support set.
    """
    with seeded(mixed_seed(seed, 0), torch.device("cpu")):
        student = FourBlockCNN(3, WAYS, SIDE, width=of.width).to(device)
        blocks = FourBlocks(4, SIDE, width=of.width)
        weights = SupportWeights(blocks, features=blocks.features, classes=WAYS).to(device)
    teacher = weights if arm.endswith(".weights") else Plain()
    return Task(StudentView(student, SGD(student.parameters(), of.lr)), teacher, cross_entropy)


def episodes_for(
    arm: str, images: ImageSet, of: Settings, seed: int, device: torch.device
) -> Episodes:
    """The tasks of an arm.

    Args:
        arm: One of the recipe's arms, which begins with the number of shots.
        images: What they are drawn from.
        of: The settings.
        seed: Of all tasks.
        device: Where they go.

    Returns:
        The tasks, the support sets spoilt where the arm says so.
    """
    spoil = Spoiling("images", of.spoilt) if "spoilt" in arm else UNSPOILT
    return Episodes(images, WAYS, int(arm[0]), of.queries, seed, *scale(), device, spoil)


def groups(episodes: Episodes, of: Settings) -> Iterator[Sequence[Episode]]:
    """Tasks to learn from.

    Args:
        episodes: All tasks.
        of: The settings.

    Yields:
        Those of one step of the start.
    """
    for number in range(of.start_steps):
        yield list(episodes.tasks(of.group, number * of.group))


def accuracies(task: Task, episodes: Episodes, of: Settings) -> list[float]:
    """How well the start, adapted to each task, answers its queries.

    Args:
        task: The student at its start, and the teacher that weighs at test.
        episodes: The tasks.
        of: The settings.

    Returns:
        In percent, one for each task.
    """
    found = []
    for number, episode in enumerate(episodes.tasks(of.tested)):
        steps = adaptation(task, episode.support, of.test_steps, of=of.steps, seed=number)
        found.append(100 * accuracy(task, adapt(task, steps), episode.query))
    return found


def weight_metrics(task: Task, episodes: Episodes, of: Settings) -> dict[str, float]:
    """What the teacher makes of good and of spoilt examples, at the first step.

    Args:
        task: The student at its start, and the teacher.
        episodes: The tasks.
        of: The settings.

    Returns:
        Mean weight of each kind, 1 for spoilt ones where none is; and the standard deviation
        within a support set, mean over tasks.
    """
    weights, spoilt = [], []
    for episode in episodes.tasks(of.tested):
        steps = adaptation(task, episode.support, 1, of=of.steps, seed=0)
        weights.append(weights_at(task, steps[0]).cpu())
        spoilt.append(episode.spoilt.cpu())
    every, bad = torch.stack(weights), torch.stack(spoilt)
    return {
        "good_weight": float(every[~bad].mean()),
        "spoilt_weight": float(every[bad].mean()) if bad.any() else 1.0,
        "weight_spread": float(every.std(1).mean()),
    }
