"""Weights of the support examples of a task, learned jointly with the initialisation.

Raghu et al. 2021, Tables 1 and B.1: MAML on CIFAR-FS, alone and with example weights. The arms
whose support images are partly corrupted are ours. Figures: ``docs/results.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import SGD, Adam

from papers.data.few_shot.benchmarks import ClassParts, few_shot
from papers.data.few_shot.episodes import Episodes, mean_and_interval
from papers.few_shot import accuracy, adapt, adaptation, learn_start, weights_at
from papers.framework.recipe import Outcome, Plot, Recipe, above, expectation
from papers.framework.settings import RecipeSettings, Share
from tutelage.bilevel import BilevelProblem
from tutelage.functional.student import StudentView
from tutelage.losses.objectives import cross_entropy
from tutelage.models import FourBlockCNN, FourBlocks
from tutelage.randomness import mixed_seed, seeded
from tutelage.signals import InitialGradientSignal, Replayed, Unrolled
from tutelage.signals.products import FirstOrder
from tutelage.teachers import PermutationControl, Plain, SupportWeights
from tutelage_cli.claims import Claim
from tutelage_cli.data.batches import statistics
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.local import load_known

WAYS = 5


class Source(NamedTuple):
    """The images of the tasks of an arm."""

    classes: ClassParts
    other: ImageSet  # images of another kind, of the same size
    mean: Tensor  # [C] of the training classes
    std: Tensor  # [C]


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's, or ours where it gives none."""

    width: int = 32  # channels of student and teacher
    queries: int = 15  # of each class in a task
    steps: int = 5  # of a student on a support set, while the initial student is learned
    test_steps: int = 15
    lr: float = 0.01  # of SGD on a support set
    start_steps: int = 15_000  # of the initial student and of the teacher
    corrupted_start_steps: int = 15_000  # the same, in the arms with corrupted images
    start_lr: float = 1e-3  # of Adam on both
    group: int = 4  # tasks for each of these steps
    tested: int = 1000  # tasks
    corrupted: Share = 0.4
    """probability that a support image's pixels are shuffled, in the arms that say so"""


def source(arm: str) -> Source:
    """The images of an arm's tasks: CIFAR-FS, or Omniglot if some are corrupted."""
    return _source("omniglot" if "corrupted" in arm else "cifar-fs")


@cache
def _source(benchmark: str) -> Source:
    digits, classes = load_known("mnist").test, few_shot(benchmark)
    wide, dark = F.pad(digits.images, (2, 2, 2, 2)).expand(-1, 3, -1, -1), 255 - digits.images
    other = replace(digits, images=dark if benchmark == "omniglot" else wide)
    return Source(classes, other, *statistics(classes.train))


def task_for(arm: str, settings: Settings, seed: int, device: torch.device) -> BilevelProblem:
    """A new student under a new teacher."""
    channels, side = source(arm).other.images.shape[1:3]
    with seeded(mixed_seed(seed, 0)):
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
    corrupted = settings.corrupted if "corrupted" in arm else 0.0
    mean, std = source(arm)[2:]
    return Episodes(
        images, WAYS, int(arm[0]), settings.queries, seed, mean, std, device, corrupted
    )


def accuracies(problem: BilevelProblem, episodes: Episodes, settings: Settings) -> list[float]:
    """Query accuracy, %, of the initial student adapted to each task."""
    values = []
    for number, episode in enumerate(episodes.tasks(settings.tested)):
        count, total = settings.test_steps, settings.steps
        steps = adaptation(problem, episode.support, count, total_steps=total, seed=number)
        values.append(100 * accuracy(problem, adapt(problem, steps), episode.query))
    return values


def weight_metrics(
    problem: BilevelProblem, episodes: Episodes, settings: Settings
) -> dict[str, float]:
    """Weights of clean and of corrupted support examples at a student's first step."""
    weights, corrupted = [], []
    for episode in episodes.tasks(settings.tested):
        steps = adaptation(problem, episode.support, 1, total_steps=settings.steps, seed=0)
        weights.append(weights_at(problem, steps[0]).cpu())
        corrupted.append(episode.corrupted.cpu())
    weight, is_corrupted = torch.stack(weights), torch.stack(corrupted)
    good = float(weight[~is_corrupted].mean())
    bad = float(weight[is_corrupted].mean()) if is_corrupted.any() else 1.0
    return {
        "good_weight": good,
        "corrupted_weight": bad,
        "weight_ratio": good / bad,
        "weight_spread": float(weight.std(1).mean()),
    }


ARMS = (
    *("1-shot.maml", "1-shot.weights"),
    *("5-shot.maml", "5-shot.weights", "5-shot.first-order"),
    *("5-shot-corrupted.maml", "5-shot-corrupted.weights"),
)
"""kind of tasks, and what is learned"""
TEST_TASKS_SEED = 1  # the same for every arm and seed


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Learn the initial student, then adapt it to tasks with test classes."""
    problem = task_for(arm, settings, seed, device)
    images = source(arm).classes.train
    learning = episodes_for(arm, images, settings, mixed_seed(seed, 2), device)
    signal: InitialGradientSignal = Unrolled(settings.steps)
    if arm.endswith("first-order"):
        signal = Replayed(settings.steps, product=FirstOrder())
    size = settings.group
    count = settings.corrupted_start_steps if "corrupted" in arm else settings.start_steps
    params = [*problem.student.module.parameters(), *problem.teacher.parameters()]
    steps = learn_start(
        problem,
        Adam(params, settings.start_lr),
        (list(learning.tasks(size, number * size)) for number in range(count)),
        steps=settings.steps,
        signal=signal,
        seed=mixed_seed(seed, 1),
    )
    losses = [float(step.query_loss) for step in steps]
    metrics = _tested(problem, arm, settings, device)
    return Outcome(metrics, {"query loss": _binned(losses)})


def _tested(
    problem: BilevelProblem, arm: str, settings: Settings, device: torch.device
) -> dict[str, float]:
    images = source(arm)
    test = episodes_for(arm, images.classes.test, settings, TEST_TASKS_SEED, device)
    other = episodes_for(arm, images.other, settings, TEST_TASKS_SEED, device)
    result = mean_and_interval(accuracies(problem, test, settings))
    metrics = {"accuracy": result.mean, "interval": result.half}
    metrics["accuracy_digits"] = mean_and_interval(accuracies(problem, other, settings)).mean
    weighs = isinstance(problem.teacher, SupportWeights)
    others = (Plain(), PermutationControl(problem.teacher)) if weighs else ()
    each = [accuracies(replace(problem, teacher=teacher), test, settings) for teacher in others]
    off, permuted = [mean_and_interval(a).mean for a in each] or [result.mean] * 2
    metrics |= {"accuracy_off": off, "accuracy_permuted": permuted}
    return metrics | weight_metrics(problem, test, settings)


def _binned(losses: Sequence[float]) -> list[float]:
    # means over 20 intervals of equal length, or fewer
    width = max(1, len(losses) // 20)
    parts = [losses[first : first + width] for first in range(0, len(losses), width)]
    return [sum(part) / len(part) for part in parts]


CORRUPTED = "5-shot-corrupted.weights"
MINI = Settings(
    width=16,
    queries=10,
    test_steps=10,
    lr=0.1,
    start_steps=50,
    corrupted_start_steps=150,
    start_lr=2e-3,
    group=2,
    tested=40,
)
RECIPE = Recipe(
    name="commentaries-fewshot",
    title="Example weights learned jointly with an initialisation raise few-shot accuracy.",
    paper="commentaries",
    where="Tables 1 and B.1, the rows of CIFAR-FS",
    arms=ARMS,
    metrics={
        "accuracy": "on the query sets of tasks with unseen classes, with example weights at "
        "test, %",
        "interval": "half of the width of its 95% interval over tasks, points",
        "accuracy_digits": "the same on tasks of MNIST digits, %",
        "accuracy_off": "as accuracy, without example weights at test, %",
        "accuracy_permuted": "as accuracy, each support example with the weight of another, %",
        "good_weight": "mean weight of clean support examples",
        "corrupted_weight": "mean weight of corrupted support examples; 1 if there are none",
        "weight_ratio": "good_weight divided by corrupted_weight",
        "weight_spread": "standard deviation of the weights within a support set",
    },
    settings={
        "smoke": Settings(
            width=4,
            queries=2,
            steps=2,
            test_steps=2,
            start_steps=2,
            corrupted_start_steps=2,
            group=1,
            tested=2,
        ),
        "mini": MINI,
        "gpu": replace(
            MINI, width=32, queries=15, start_steps=150, corrupted_start_steps=150, tested=100
        ),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 10, "gpu": 10, "paper": 20_000},
    run=run,
    claims=(
        Claim(
            "Example weights learned jointly with the initialisation raise the accuracy on "
            "new tasks, with one and with five examples per class.",
            above("accuracy", "1-shot.weights", "1-shot.maml")
            + above("accuracy", "5-shot.weights", "5-shot.maml"),
        ),
        expectation(
            "With corrupted support images, clean examples have more than 1.5 times the "
            "weight of corrupted ones, and the weights raise the accuracy above that of MAML.",
            above("weight_ratio", CORRUPTED, 1.5)
            + above("accuracy", CORRUPTED, "5-shot-corrupted.maml"),
        ),
        expectation(
            "With corrupted support images, the weights of other support examples give an "
            "accuracy that is lower by more than one point.",
            above("accuracy", CORRUPTED, (CORRUPTED, "accuracy_permuted"), margin=1.0),
        ),
        expectation(
            "Without corrupted images, the weights lower the accuracy by less than three "
            "points, with one and with five examples per class.",
            above("accuracy", "1-shot.weights", "1-shot.maml", margin=-3.0)
            + above("accuracy", "5-shot.weights", "5-shot.maml", margin=-3.0),
        ),
        expectation(
            "First-order MAML is less than three points worse than MAML, with five examples "
            "per class.",
            above("accuracy", "5-shot.first-order", "5-shot.maml", margin=-3.0),
        ),
    ),
    table="Table B.1",
    printed={
        (f"{shots}-shot.{arm}", "accuracy"): (f"5-way {shots}-shot: CIFAR-FS->CIFAR-FS", column)
        for shots in (1, 5)
        for arm, column in (("maml", "MAML Baseline"), ("weights", "Example weighting + MAML"))
    },
    plots=tuple(
        Plot(
            f"{shots}, during meta-training",
            "query loss",
            {
                arm.split(".")[1]: (arm, "query loss")
                for arm in ARMS
                if arm.split(".")[0] == shots
            },
            across="interval of meta-training",
        )
        for shots in ("1-shot", "5-shot", "5-shot-corrupted")
    ),
    prepare=lambda _settings: [source(arm) for arm in ARMS],
)
