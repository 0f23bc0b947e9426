"""Grids that say how much of which class to blend into which, and students taught with them."""

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.lr_scheduler import MultiStepLR

from papers.framework.drawings import grid
from papers.framework.recipe import Outcome
from papers.framework.settings import Positive, RecipeSettings, Student
from papers.students import (
    balanced_parts,
    build_network,
    cropped_and_mirrored,
    evaluate,
    fit,
    joint_tutor,
    learn_jointly,
    sgd,
)
from tutelage.randomness import mixed_seed
from tutelage.teachers import Blending, Mixup, Plain, RandomBlending, Shuffled
from tutelage.training.tutor import Tutor
from tutelage_cli.data.batches import Batches, statistics

ARMS = ("none", "random", "mixup", "shuffled", "learned")
METRICS = {
    "test_accuracy": "at the end, %",
    "test_loss": "at the end, nats",
    "fraction": "how much of the partner is blended in, mean over pairs of classes",
}
ROWS = {
    "none": "No commentary",
    "random": "Random commentary",
    "mixup": "mixup",
    "shuffled": "Learned commentary (shuffled)",
    "learned": "Learned commentary (original)",
}
"""of the paper's table"""


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """What decides a job; the defaults are the paper's, or ours where it says nothing."""

    data: str = "cifar10"  # a name of ``tutelage_cli.data.local.KNOWN``
    student: Student = "resnet18-cifar"  # see ``tutelage.models.STUDENTS``
    train: int = 45_000
    """images, to learn the grid with and then to train students on; as many of every class"""
    held_out: int = 5_000  # images that judge the grid; as many of every class
    tested: int = 10_000  # test images
    batch: int = 128  # images per student step
    judged: int = 128  # held-out images per step of the grid
    joint_epochs: int = 100  # in which the grid and a first student learn together
    joint_lr: Positive = 1e-3  # of that student's Adam, and the scale of the Neumann series
    teacher_lr: float = 1e-2  # of Adam on the grid's logits
    epochs: int = 100  # of a new student under a grid as it then is
    lr: float = 0.1  # of its SGD; a tenth of that after 30%, 60% and 80% of the epochs
    cropped: bool = True  # whether a new student's images are cropped and mirrored, too


class Learned(NamedTuple):
    """A grid that has learned along with a student."""

    blending: Blending
    series: dict[str, list[float]]
    """of each epoch: the student's mean held-out loss in nats, the grid's mean fraction"""


def parts(settings: Settings, seed: int, device: torch.device) -> tuple[Batches, ...]:
    """Batches to train on, held-out ones, and those of the first test images."""
    images = balanced_parts(
        settings.data, settings.train, settings.held_out, settings.tested, seed
    )
    mean, std = statistics(images.train)
    sizes = settings.batch, settings.judged, 500
    return tuple(
        Batches(part, size, mixed_seed(seed, 2), mean, std, None, device)
        for part, size in zip(images, sizes, strict=True)
    )


@cache
def learned(settings: Settings, seed: int, device: torch.device) -> Learned:
    """Learn a grid along with a student by algorithm 2; once in each process."""
    train, held_out, _ = parts(settings, seed, device)
    student = build_network(settings.student, train.images, mixed_seed(seed, 3)).to(device)
    blending = Blending(len(train.images.classes)).to(device)
    tutor = joint_tutor(
        student,
        blending,
        settings.joint_lr,
        seed=mixed_seed(seed, 4),
        teacher_lr=settings.teacher_lr,
    )
    series: dict[str, list[float]] = {"held-out loss": [], "fraction": []}
    for loss in learn_jointly(tutor, train, held_out, settings.joint_epochs):
        series["held-out loss"].append(loss)
        series["fraction"].append(float(1 - blending.shares.detach().mean()))
    return Learned(blending.requires_grad_(False), series)


def teacher(
    arm: str, settings: Settings, classes: int, seed: int, device: torch.device
) -> nn.Module:
    """What blends a new student's images; none of it learns any more."""
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
    """How much of a partner is blended in, by the example's own class and its partner's."""
    if isinstance(blending, Blending | RandomBlending | Shuffled):
        return 1 - blending.shares.detach().cpu()
    return torch.full((classes, classes), 0.5 if isinstance(blending, Mixup) else 0.0)


def blended(
    arm: str, seed: int, settings: Settings, device: torch.device
) -> tuple[Outcome, Float[Tensor, "C C"]]:
    """Train one new student on blended images; learned blending is learned first."""
    train, _, test = parts(settings, seed, device)
    names = train.images.classes
    blending = teacher(arm, settings, len(names), seed, device)
    train = replace(train, seed=mixed_seed(seed, 6))
    if settings.cropped:
        train = replace(train, augment=cropped_and_mirrored)
    found = fractions(blending, len(names))
    student = build_network(settings.student, train.images, mixed_seed(seed, 7)).to(device)
    optimizer = sgd(student, settings.lr)
    tutor = Tutor(student, optimizer, blending, seed=mixed_seed(seed, 8))
    drops = [max(1, int(settings.epochs * share)) for share in (0.3, 0.6, 0.8)]
    losses = fit(tutor, train, settings.epochs, MultiStepLR(optimizer, drops))
    series = {"training loss": losses}
    if arm == "learned":
        series |= learned(settings, seed, device).series
    metrics = evaluate(tutor, test) | {"fraction": float(found.mean())}
    drawing = grid(
        names, found, label="fraction of the partner", rows="class", columns="partner"
    )
    return Outcome(metrics, series, {"grid": drawing}), found


def cells(data: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Where the paper's Table C.1 prints what was measured."""
    columns = {"test_accuracy": f"{data} Test Accuracy", "test_loss": f"{data} Test Loss"}
    return {(arm, m): (row, name) for arm, row in ROWS.items() for m, name in columns.items()}
