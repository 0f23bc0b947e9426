"""Grids that say how much of which class to blend into which: learned, random, and shuffled."""

from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Adam

from tutelage.models import build_student
from tutelage.models.catalogue import require_student
from tutelage.randomness import mixed_seed
from tutelage.signals import Implicit, Neumann
from tutelage.teachers import Blending, Mixup, Plain, RandomBlending, Shuffled
from tutelage.training.loops import alternating
from tutelage.training.tutor import Tutor
from tutelage.validation.ranges import above_zero, at_least_one, not_negative
from tutelage_cli.data.batches import Batches, statistics
from tutelage_cli.data.images import ImageSet, Splits
from tutelage_cli.data.local import load_known
from tutelage_cli.data.splits import balanced_rows

ARMS = ("none", "random", "mixup", "shuffled", "learned")


@dataclass(frozen=True)
class Settings:
    """What decides a job; the defaults are the paper's, or ours where it says nothing."""

    data: str = "cifar10"
    """a name of ``tutelage_cli.data.local.KNOWN``"""
    student: str = "resnet18-cifar"
    """see ``tutelage.models.STUDENTS``"""
    train: int = 45_000
    """images, to learn the grid with and then to train students on; as many of every class"""
    held_out: int = 5_000
    """images that judge the grid; as many of every class"""
    tested: int = 10_000
    """test images"""
    batch: int = 128
    """images per student step"""
    judged: int = 128
    """held-out images per step of the grid"""
    joint_epochs: int = 100
    """in which the grid and a first student learn together"""
    joint_lr: float = 1e-3
    """of that student's Adam, and the scale of the Neumann series"""
    teacher_lr: float = 1e-2
    """of Adam on the grid's logits"""
    epochs: int = 100
    """of a new student under a grid as it then is"""
    lr: float = 0.1
    """of its SGD; a tenth of that after 30%, 60% and 80% of the epochs"""
    cropped: bool = True
    """whether a new student's images are cropped and mirrored, too"""

    def __post_init__(self) -> None:
        """Check what can be checked without the data; ``UsageError`` where a value is wrong."""
        at_least_one(self, "train", "held_out", "tested", "batch", "judged")
        at_least_one(self, "joint_epochs", "epochs")
        above_zero(self, "joint_lr")  # the scale of a series, too
        not_negative(self, "teacher_lr", "lr")
        require_student(self.student)


class Parts(NamedTuple):
    """Where batches come from, none of them cropped or mirrored."""

    train: Batches
    held_out: Batches
    test: Batches

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self.train.images.classes


class Learned(NamedTuple):
    """A grid that has learned along with a student."""

    blending: Blending
    told: dict[str, list[float]]
    """of each epoch: the student's mean held-out loss in nats, the grid's mean fraction"""


@cache
def splits(name: str) -> Splits:
    """A data set, read once in each process."""
    return load_known(name)


def parts(of: Settings, seed: int, device: torch.device) -> Parts:
    """Training and held-out images, balanced over classes, and the first test images."""
    whole = splits(of.data).train
    classes = len(whole.classes)
    chosen, others = balanced_rows(whole.labels, of.held_out, classes, seed=mixed_seed(seed, 0))
    left = whole.labels[others]
    kept = others[balanced_rows(left, of.train, classes, seed=mixed_seed(seed, 1))[0]]
    train = whole.rows(kept)
    mean, std = statistics(train)

    def batches(images: ImageSet, size: int) -> Batches:
        return Batches(images, size, mixed_seed(seed, 2), mean, std, None, device)

    test = splits(of.data).test.rows(torch.arange(of.tested))
    judging = batches(whole.rows(chosen), of.judged)
    return Parts(batches(train, of.batch), judging, batches(test, 500))


@cache
def learned(of: Settings, seed: int, device: torch.device) -> Learned:
    """Learn a grid along with a student by algorithm 2; once in each process."""
    data = parts(of, seed, device)
    along = student(of, len(data.classes), mixed_seed(seed, 3)).to(device)
    blending = Blending(len(data.classes)).to(device)
    tutor = Tutor(
        along,
        Adam(along.parameters(), of.joint_lr),
        blending,
        Adam(blending.parameters(), of.teacher_lr),
        signal=Implicit(Neumann(1, of.joint_lr)),
        seed=mixed_seed(seed, 4),
    )
    judging = map(data.held_out.draw, count())
    told: dict[str, list[float]] = {"held-out loss": [], "fraction": []}
    for epoch in range(of.joint_epochs):
        records = list(alternating(tutor, data.train.epoch(epoch), judging))
        losses = [r.held_out_loss for r in records if r.held_out_loss is not None]
        told["held-out loss"].append(float(torch.stack(losses).mean()))
        told["fraction"].append(float(1 - blending.shares.detach().mean()))
    return Learned(blending.requires_grad_(False), told)


def teacher(arm: str, of: Settings, seed: int, device: torch.device) -> nn.Module:
    """What blends a new student's images; none of it learns any more."""
    classes, drawn = len(splits(of.data).train.classes), mixed_seed(seed, 5)
    match arm:
        case "learned":
            return learned(of, seed, device).blending
        case "shuffled":
            return Shuffled(learned(of, seed, device).blending, seed=drawn)
        case "random":
            return RandomBlending(classes, seed=drawn).to(device)
        case "mixup":
            return Mixup(classes, alpha=1.0)
        case _:
            return Plain()


def fractions(by: nn.Module, classes: int) -> Float[Tensor, "C C"]:
    """How much of a partner is blended in, by the example's own class and its partner's."""
    if isinstance(by, Blending | RandomBlending | Shuffled):
        return 1 - by.shares.detach().cpu()
    return torch.full((classes, classes), 0.5 if isinstance(by, Mixup) else 0.0)


def student(of: Settings, classes: int, seed: int) -> nn.Module:
    """A student on the CPU, its weights drawn."""
    return build_student(of.student, classes=classes, channels=3, size=32, seed=seed)
