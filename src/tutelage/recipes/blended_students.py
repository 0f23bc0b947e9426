"""Students taught with images blended by class: by a learned grid, by others, or not at all."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import MultiStepLR

from tutelage.augment import crop_and_flip
from tutelage.data.batches import Batches, statistics
from tutelage.data.images import ImageSet, Splits
from tutelage.data.local import load_known
from tutelage.data.splits import balanced_rows
from tutelage.loops import alternating
from tutelage.models import build_student
from tutelage.randomness import mixed_seed
from tutelage.reproduction.claims import Comparison
from tutelage.reproduction.drawings import grid
from tutelage.reproduction.recipe import Outcome
from tutelage.signals import Implicit, Neumann
from tutelage.teachers import Blending, Mixup, Plain, RandomBlending, Shuffled
from tutelage.tutor import Tutor

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
class Settings:
    """What decides a job; the defaults are the paper's, or ours where it says nothing."""

    data: str = "cifar10"
    """a name of ``tutelage.data.local.KNOWN``"""
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
    """A data set, read once in each process.

    Args:
        name: One of ``tutelage.data.local.KNOWN``.

    Returns:
        Its splits.
    """
    return load_known(name)


def parts(of: Settings, seed: int, device: torch.device) -> Parts:
    """Training and held-out images, balanced over classes, and the first test images.

    Args:
        of: The settings.
        seed: Of what is drawn.
        device: Where batches go.

    Returns:
        The parts.
    """
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
    """Learn a grid along with a student by algorithm 2; once in each process.

    Args:
        of: The settings.
        seed: Of everything that is drawn.
        device: Where.

    Returns:
        The grid, no longer learning.
    """
    data = parts(of, seed, device)
    student = _student(of, len(data.classes), mixed_seed(seed, 3)).to(device)
    blending = Blending(len(data.classes)).to(device)
    tutor = Tutor(
        student,
        Adam(student.parameters(), of.joint_lr),
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
    """What blends a new student's images; none of it learns any more.

    Args:
        arm: One of ``ARMS``.
        of: The settings.
        seed: Of what is drawn.
        device: Where.

    Returns:
        The teacher.
    """
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
    """How much of a partner is blended in, by the example's own class and its partner's.

    Args:
        by: The teacher.
        classes: C.

    Returns:
        ``1 - lambda``, its mean for mixup.
    """
    if isinstance(by, Blending | RandomBlending | Shuffled):
        return 1 - by.shares.detach().cpu()
    return torch.full((classes, classes), 0.5 if isinstance(by, Mixup) else 0.0)


def blended(
    arm: str, seed: int, settings: Settings, device: torch.device
) -> tuple[Outcome, Float[Tensor, "C C"]]:
    """Train one new student on images blended in one way, learned first where that is learned.

    Args:
        arm: One of ``ARMS``.
        seed: Of everything that is drawn.
        settings: The scale's.
        device: Where.

    Returns:
        What was measured, and the grid of fractions.
    """
    data, by = parts(settings, seed, device), teacher(arm, settings, seed, device)
    train = replace(data.train, seed=mixed_seed(seed, 6))
    if settings.cropped:
        train = replace(train, augment=_standard)
    found = fractions(by, len(data.classes))
    student = _student(settings, len(data.classes), mixed_seed(seed, 7)).to(device)
    rule = SGD(
        student.parameters(), settings.lr, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    tutor = Tutor(student, rule, by, seed=mixed_seed(seed, 8))
    series = {"training loss": list(_epochs(tutor, train, settings))}
    if arm == "learned":
        series |= learned(settings, seed, device).told
    metrics = _tested(student, data.test) | {"fraction": float(found.mean())}
    seen = grid(
        data.classes, found, label="fraction of the partner", rows="class", columns="partner"
    )
    return Outcome(metrics, series, {"grid": seen}), found


def lower_loss(than: str) -> Comparison:
    """Students under the learned grid have a lower test loss than others.

    Args:
        than: Another arm.

    Returns:
        The comparison.
    """
    return Comparison(("learned", "test_loss"), "below", (than, "test_loss"))


def cells(data: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Where the paper's Table C.1 prints what was measured.

    Args:
        data: The data set as the table's columns name it.

    Returns:
        Row and column by arm and metric.
    """
    columns = {"test_accuracy": f"{data} Test Accuracy", "test_loss": f"{data} Test Loss"}
    return {(arm, m): (row, name) for arm, row in ROWS.items() for m, name in columns.items()}


@torch.no_grad()
def _tested(student: nn.Module, test: Batches) -> dict[str, float]:
    student.eval()
    loss, right = 0.0, 0
    for batch in test.whole(500):
        logits = student(batch.inputs)
        loss += float(F.cross_entropy(logits, batch.targets, reduction="sum"))
        right += int((logits.argmax(1) == batch.targets).sum())
    total = len(test.images)
    return {"test_accuracy": 100 * right / total, "test_loss": loss / total}


def _student(of: Settings, classes: int, seed: int) -> nn.Module:
    return build_student(of.student, classes=classes, channels=3, size=32, seed=seed)


def _standard(images: Tensor, seed: int) -> Tensor:
    return crop_and_flip(images, seed=seed, mode="zeros")


def _epochs(tutor: Tutor, train: Batches, of: Settings) -> Iterator[float]:
    steps = [max(1, int(of.epochs * share)) for share in (0.3, 0.6, 0.8)]
    schedule = MultiStepLR(tutor.optimizer, steps)
    for epoch in range(of.epochs):
        losses = [tutor.step(batch).loss for batch in train.epoch(epoch)]
        schedule.step()
        yield float(torch.stack(losses).mean())
