"""Learned blending of classes, compared with none, random, mixup and shuffled learned blending.

Raghu et al. 2021, Tables 2 and C.1 and Figures 5 and C.1. Figures: ``docs/results.md``.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.lr_scheduler import MultiStepLR

from papers.framework.drawings import grid
from papers.framework.recipe import Outcome, Panel, Recipe, above, below, curves
from papers.framework.settings import Positive, RecipeSettings, Student
from papers.students import (
    augmented,
    balanced_parts,
    batches_of,
    build_network,
    evaluate,
    fit,
    joint_tutor,
    learn_jointly,
    sgd,
    splits,
)
from tutelage.randomness import mixed_seed
from tutelage.teachers import Blending, Mixup, Plain, RandomBlending, Shuffled
from tutelage.training.tutor import Tutor
from tutelage_cli.claims import Claim
from tutelage_cli.data.batches import Batches

ARMS = ("none", "random", "mixup", "shuffled", "learned")
METRICS = {
    "test_accuracy": "at the end of training, %",
    "test_loss": "at the end of training, nats",
    "fraction": "blending fraction of the partner, mean over pairs of classes",
}
ROWS = {
    "none": "No commentary",
    "random": "Random commentary",
    "mixup": "mixup",
    "shuffled": "Learned commentary (shuffled)",
    "learned": "Learned commentary (original)",
}
"""rows of the paper's table by arm"""


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's, or ours where it gives none."""

    data: str = "cifar10"  # a name of ``tutelage_cli.data.local.KNOWN``
    student: Student = "resnet18-cifar"  # see ``tutelage.models.STUDENTS``
    train: int = 45_000
    """images on which fractions are learned, then students trained; balanced over classes"""
    held_out: int = 5_000  # images of the held-out loss; balanced over classes
    tested: int = 10_000  # test images
    batch: int = 128  # images per student step
    judged: int = 128  # held-out images per teacher step
    joint_epochs: int = 100  # in which teacher and a first student are trained together
    joint_lr: Positive = 1e-3  # of that student's Adam, and the scale of the Neumann series
    teacher_lr: float = 1e-2  # of Adam on the logits of the fractions
    epochs: int = 100  # of a new student with fixed fractions
    lr: float = 0.1  # of its SGD; divided by 10 after 30%, 60% and 80% of the epochs
    cropped: bool = True  # whether its images are also cropped and mirrored


class Learned(NamedTuple):
    """A teacher that was trained together with a student."""

    blending: Blending
    series: dict[str, list[float]]
    """by epoch: the student's mean held-out loss in nats, the mean blending fraction"""


def parts(settings: Settings, seed: int, device: torch.device) -> list[Batches]:
    """Batches of training images, of held-out ones, and of the first test images."""
    sizes = settings.train, settings.held_out, settings.tested
    images = balanced_parts(settings.data, *sizes, seed)
    return batches_of(
        images, (settings.batch, settings.judged, 500), mixed_seed(seed, 2), device
    )


@cache
def learned(settings: Settings, seed: int, device: torch.device) -> Learned:
    """Train a teacher together with a student by algorithm 2; once in each process."""
    train, held_out, _ = parts(settings, seed, device)
    student = build_network(settings.student, train.examples, mixed_seed(seed, 3)).to(device)
    blending = Blending(len(train.examples.classes)).to(device)
    lr, teacher_lr = settings.joint_lr, settings.teacher_lr
    tutor = joint_tutor(student, blending, lr, seed=mixed_seed(seed, 4), teacher_lr=teacher_lr)
    series: dict[str, list[float]] = {"held-out loss": [], "fraction": []}
    for loss in learn_jointly(tutor, train, held_out, settings.joint_epochs):
        series["held-out loss"].append(loss)
        series["fraction"].append(float(1 - blending.shares.detach().mean()))
    return Learned(blending.requires_grad_(False), series)


def teacher(
    arm: str, settings: Settings, classes: int, seed: int, device: torch.device
) -> nn.Module:
    """The fixed teacher of an arm, which blends a new student's images."""
    match arm:
        case "learned":
            return learned(settings, seed, device).blending
        case "shuffled":
            blending = learned(settings, seed, device).blending
            return Shuffled(blending, seed=mixed_seed(seed, 5))
        case "random":
            return RandomBlending(classes, seed=mixed_seed(seed, 5)).to(device)
        case "mixup":
            return Mixup(classes, alpha=1.0)
        case _:
            return Plain()


def fractions(blending: nn.Module, classes: int) -> Float[Tensor, "C C"]:
    """The blending fractions by class of the example (rows) and of the partner (columns)."""
    if isinstance(blending, Blending | RandomBlending | Shuffled):
        return 1 - blending.shares.detach().cpu()
    return torch.full((classes, classes), 0.5 if isinstance(blending, Mixup) else 0.0)


def blended(
    arm: str, seed: int, settings: Settings, device: torch.device
) -> tuple[Outcome, Float[Tensor, "C C"]]:
    """Train a new student on blended images; also returns the blending fractions.

    In the arms that need it, the teacher is trained first.
    """
    train, _, test = parts(settings, seed, device)
    names = train.examples.classes
    blending = teacher(arm, settings, len(names), seed, device)
    train = replace(train, seed=mixed_seed(seed, 6))
    if settings.cropped:
        train = augmented(train)
    learned_fractions = fractions(blending, len(names))
    student = build_network(settings.student, train.examples, mixed_seed(seed, 7)).to(device)
    optimizer = sgd(student, settings.lr)
    tutor = Tutor(student, optimizer, blending, seed=mixed_seed(seed, 8))
    milestones = [max(1, int(settings.epochs * share)) for share in (0.3, 0.6, 0.8)]
    losses = fit(tutor, train, settings.epochs, MultiStepLR(optimizer, milestones))
    series = {"training loss": losses}
    if arm == "learned":
        series |= learned(settings, seed, device).series
    metrics = evaluate(tutor, test) | {"fraction": float(learned_fractions.mean())}
    drawing = grid(
        names,
        learned_fractions,
        label="blending fraction",
        rows="class",
        columns="partner",
    )
    return Outcome(metrics, series, {"grid": drawing}), learned_fractions


def cells(data: str) -> dict[tuple[str, str], tuple[str, str]]:
    """The cells of the paper's Table C.1 by arm and metric."""
    columns = {"test_accuracy": f"{data} Test Accuracy", "test_loss": f"{data} Test Loss"}
    return {(arm, m): (row, name) for arm, row in ROWS.items() for m, name in columns.items()}


PAIRS = {"cat_dog": ("cat", "dog"), "truck_automobile": ("truck", "automobile")}


def excess(grid: Tensor, pair: tuple[int, int]) -> float:
    """Mean fraction of two classes with one another, less that with all other classes."""
    rows = (grid.sum(1) - grid.diagonal()) / (len(grid) - 1)
    return sum(float(grid[i, j] - rows[i]) for i, j in (pair, pair[::-1])) / 2


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train the student of one arm and seed."""
    return blended(arm, seed, settings, device)[0]


def run_cifar10(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """The same as ``run``, with the metrics of ``PAIRS``."""
    outcome, grid = blended(arm, seed, settings, device)
    index = splits(settings.data).train.classes.index
    excesses = {m: excess(grid, (index(a), index(b))) for m, (a, b) in PAIRS.items()}
    return outcome._replace(metrics={**outcome.metrics, **excesses})


LOSSES = curves("Training loss of new students", "nats", ARMS, "training loss")
FRACTION = curves(
    "Mean blending fraction while it is learned", "fraction", ["learned"], "fraction"
)
HELD_OUT = curves(
    "Held-out loss while fractions are learned", "nats", ["learned"], "held-out loss"
)


MINI = Settings("cifar10", "cnn", 2000, 4000, 4000, 64, 64, 30, 1e-3, 1e-2, 45, 0.02, False)
CIFAR10 = Recipe(
    name="commentaries-blending-cifar",
    title="Learned blending of pairs of classes gives a lower test loss.",
    paper="commentaries",
    where="Tables 2 and C.1, Figures 5 and C.1, CIFAR-10",
    arms=ARMS,
    metrics=METRICS
    | {
        m: f"mean fraction of {a} with {b} and back, minus that of their rows; 0 if all equal"
        for m, (a, b) in PAIRS.items()
    },
    settings={
        "smoke": Settings("cifar10", "cnn", 40, 40, 40, 20, 20, 1, 1e-3, 1e-2, 1, 0.1, False),
        "mini": MINI,
        "gpu": Settings(train=20_000, joint_epochs=6, epochs=12),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 8, "gpu": 6, "paper": 130},
    run=run_cifar10,
    claims=(
        Claim(
            "Learned blending gives a lower test loss than no blending.",
            below("test_loss", "learned", "none"),
        ),
        Claim(
            "Learned blending gives a lower test loss than a random grid.",
            below("test_loss", "learned", "random"),
        ),
        Claim(
            "Learned blending gives a lower test loss than the same grid shuffled.",
            below("test_loss", "learned", "shuffled"),
        ),
        Claim(
            "Similar classes (cat and dog, truck and automobile) are blended with one another "
            "more than with other classes.",
            above("cat_dog", "learned", 0.0) + above("truck_automobile", "learned", 0.0),
        ),
    ),
    table="Table C.1",
    printed=cells("CIFAR10"),
    plots=(
        Panel("Learned blending fractions, seed 0", "learned", "grid"),
        LOSSES,
        FRACTION,
        HELD_OUT,
    ),
    prepare=lambda settings: splits(settings.data),
)

BASELINES = {
    "none": "no blending",
    "random": "a random grid",
    "mixup": "mixup",
    "shuffled": "the same grid shuffled",
}
CIFAR100 = replace(
    CIFAR10,
    name="commentaries-blending-cifar100",
    title="Learned blending gives the best test accuracy and test loss on CIFAR-100.",
    where="Tables 2 and C.1, CIFAR-100",
    metrics=METRICS,
    settings={
        "smoke": Settings(
            "cifar100", "cnn", 100, 100, 40, 50, 50, 1, 1e-3, 1e-2, 1, 0.1, False
        ),
        "mini": replace(MINI, data="cifar100"),
        "gpu": Settings("cifar100", train=20_000, joint_epochs=6, epochs=12),
        "paper": Settings("cifar100"),
    },
    run=run,
    claims=tuple(
        Claim(
            f"Learned blending gives a higher test accuracy and a lower test loss than {name}.",
            below("test_loss", "learned", arm) + above("test_accuracy", "learned", arm),
        )
        for arm, name in BASELINES.items()
    ),
    printed=cells("CIFAR100"),
    plots=(LOSSES, FRACTION),
)
