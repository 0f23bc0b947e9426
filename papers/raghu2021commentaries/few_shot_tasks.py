"""Few-shot tasks for the recipe that learns where a student starts: data and measures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import SGD

from papers.data.few_shot.benchmarks import ClassParts, few_shot
from papers.data.few_shot.episodes import UNSPOILT, Episode, Episodes, Spoiling
from papers.few_shot import accuracy, adapt, adaptation, weights_at
from papers.framework.settings import RecipeSettings, Share
from tutelage.bilevel import BilevelProblem
from tutelage.functional.student import StudentView
from tutelage.losses.objectives import cross_entropy
from tutelage.models import FourBlockCNN, FourBlocks
from tutelage.randomness import mixed_seed, seeded
from tutelage.teachers import Plain, SupportWeights
from tutelage_cli.data.batches import statistics
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.local import load_known

WAYS = 5


class Source(NamedTuple):
    """What tasks are drawn from."""

    classes: ClassParts
    other: ImageSet  # images of another kind, of the same size
    mean: Tensor  # [C] of the classes that the start is learned from
    std: Tensor  # [C]


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """What decides a job; the defaults are the paper's, or ours where it says nothing."""

    width: int = 32  # channels of student and teacher
    queries: int = 15  # of each class in a task
    steps: int = 5  # of a student on a support set, while the start is learned
    test_steps: int = 15
    lr: float = 0.01  # of SGD on a support set
    start_steps: int = 15_000  # of the start and of the teacher
    spoilt_start_steps: int = 15_000  # the same, in the arms with spoilt images
    start_lr: float = 1e-3  # of Adam on both
    group: int = 4  # tasks for each of these steps
    tested: int = 1000  # tasks
    spoilt: Share = 0.4
    """probability that a support image's pixels are shuffled, in the arms that say so"""


def source(arm: str) -> Source:
    """What an arm's tasks are drawn from: photographs, or characters where some are spoilt."""
    return _characters() if "spoilt" in arm else _photographs()


@cache
def _photographs() -> Source:
    digits, classes = load_known("mnist").test, few_shot("cifar-fs")
    wide = F.pad(digits.images, (2, 2, 2, 2)).expand(-1, 3, -1, -1)
    return Source(classes, replace(digits, images=wide), *statistics(classes.train))


@cache
def _characters() -> Source:
    digits, classes = load_known("mnist").test, few_shot("omniglot")
    dark = replace(digits, images=255 - digits.images)
    return Source(classes, dark, *statistics(classes.train))


def task_for(arm: str, settings: Settings, seed: int, device: torch.device) -> BilevelProblem:
    """A student at a random start, and a teacher that knows nothing yet."""
    channels, side = source(arm).other.images.shape[1:3]
    with seeded(mixed_seed(seed, 0), torch.device("cpu")):
        student = FourBlockCNN(channels, WAYS, side, width=settings.width).to(device)
        blocks = FourBlocks(channels + 1, side, width=settings.width)
        weights = SupportWeights(blocks, features=blocks.features, classes=WAYS).to(device)
    teacher = weights if arm.endswith(".weights") else Plain()
    return BilevelProblem(
        StudentView(student, SGD(student.parameters(), settings.lr)), teacher, cross_entropy
    )


def episodes_for(
    arm: str, images: ImageSet, settings: Settings, seed: int, device: torch.device
) -> Episodes:
    """The tasks of an arm."""
    spoil = Spoiling("images", settings.spoilt) if "spoilt" in arm else UNSPOILT
    mean, std = source(arm)[2:]
    return Episodes(images, WAYS, int(arm[0]), settings.queries, seed, mean, std, device, spoil)


def groups(arm: str, episodes: Episodes, settings: Settings) -> Iterator[Sequence[Episode]]:
    """Tasks to learn from."""
    steps = settings.spoilt_start_steps if "spoilt" in arm else settings.start_steps
    for number in range(steps):
        yield list(episodes.tasks(settings.group, number * settings.group))


def accuracies(problem: BilevelProblem, episodes: Episodes, settings: Settings) -> list[float]:
    """How well the start, adapted to each task, answers its queries."""
    found = []
    for number, episode in enumerate(episodes.tasks(settings.tested)):
        steps = adaptation(
            problem,
            episode.support,
            settings.test_steps,
            total_steps=settings.steps,
            seed=number,
        )
        found.append(100 * accuracy(problem, adapt(problem, steps), episode.query))
    return found


def weight_metrics(
    problem: BilevelProblem, episodes: Episodes, settings: Settings
) -> dict[str, float]:
    """What the teacher makes of good and of spoilt examples, at the first step of a student."""
    weights, spoilt = [], []
    for episode in episodes.tasks(settings.tested):
        steps = adaptation(problem, episode.support, 1, total_steps=settings.steps, seed=0)
        weights.append(weights_at(problem, steps[0]).cpu())
        spoilt.append(episode.spoilt.cpu())
    every, bad = torch.stack(weights), torch.stack(spoilt)
    good = float(every[~bad].mean())
    found = float(every[bad].mean()) if bad.any() else 1.0
    return {
        "good_weight": good,
        "spoilt_weight": found,
        "weight_ratio": good / found,
        "weight_spread": float(every.std(1).mean()),
    }
