"""Learned masks beside the same masks on other images, and masks at random places.

Raghu et al. 2021, Table D.1, its half for CIFAR-10. Figures: ``docs/results.md``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import MultiStepLR

from tutelage.augment import crop_and_flip
from tutelage.data.batches import Batches, statistics
from tutelage.data.images import ImageSet, Splits
from tutelage.data.local import load_known
from tutelage.data.splits import balanced_rows
from tutelage.look import shown
from tutelage.loops import alternating
from tutelage.models import MaskUNet, build_student, resnet8
from tutelage.randomness import mixed_seed, seeded
from tutelage.reproduction.claims import Claim, Comparison
from tutelage.reproduction.recipe import Outcome, Plot, Recipe
from tutelage.signals import Implicit, Neumann
from tutelage.teachers import AttentionMask, Permuted, Plain, RandomMask
from tutelage.tutor import Tutor

CLASSES = 10
ARMS = ("learned", "permuted", "random", "centre", "none")
ROWS = {
    "learned": "Learned mask",
    "permuted": "Permuted learned mask",
    "random": "Random mask",
}
COLUMNS = {"test_accuracy": "CIFAR10 Test Accuracy", "test_loss": "CIFAR10 Test Loss"}


@dataclass(frozen=True)
class Settings:
    """What decides a job; the defaults are the paper's, or ours where it says nothing."""

    sigma: float = 15.0
    """standard deviation of a mask, pixels"""
    student: str = "resnet18-cifar"
    """see ``tutelage.models.STUDENTS``, or resnet8-narrow: of 8, 16 and 32 channels"""
    train: int = 45_000
    """images, to learn the masks with and then to train students on"""
    held_out: int = 5_000
    """images that judge the masks"""
    tested: int = 10_000
    """test images"""
    batch: int = 128
    """images per student step"""
    joint_epochs: int = 100
    """in which masks and a first student learn together"""
    joint_lr: float = 1e-4
    """of Adam for both of them, and the scale of the Neumann series"""
    epochs: int = 100
    """of a new student under the masks as they then are"""
    lr: float = 0.1
    """of its SGD; a tenth of that after 30%, 60% and 80% of the epochs"""


class Parts(NamedTuple):
    """Where batches come from."""

    train: Batches
    """as it is"""
    held_out: Batches
    test: Batches


@cache
def _cifar10() -> Splits:
    # read once in each process
    return load_known("cifar10")


def _parts(of: Settings, seed: int, device: torch.device) -> Parts:
    whole = _cifar10().train
    chosen, others = balanced_rows(whole.labels, of.held_out, CLASSES, seed=mixed_seed(seed, 0))
    left = whole.labels[others]
    kept = others[balanced_rows(left, of.train, CLASSES, seed=mixed_seed(seed, 1))[0]]
    train, test = whole.rows(kept), _cifar10().test.rows(torch.arange(of.tested))
    mean, std = statistics(train)

    def batches(images: ImageSet) -> Batches:
        return Batches(images, of.batch, mixed_seed(seed, 2), mean, std, None, device)

    return Parts(batches(train), batches(whole.rows(chosen)), batches(test))


def _standard(images: Tensor, seed: int) -> Tensor:
    return crop_and_flip(images, seed=seed, mode="zeros")


def _student(of: Settings, seed: int) -> nn.Module:
    if of.student == "resnet8-narrow":
        with seeded(seed, torch.device("cpu")):
            return resnet8(classes=CLASSES, width=8)
    return build_student(of.student, classes=CLASSES, channels=3, size=32, seed=seed)


def _masks(of: Settings, seed: int) -> AttentionMask:
    with seeded(seed, torch.device("cpu")):
        network = MaskUNet(3, width=8, levels=1)
    return AttentionMask(network, sigma=of.sigma)


@cache
def _learned(of: Settings, seed: int, device: torch.device) -> AttentionMask:
    # masks that have learned along with a student; once in each process
    parts = _parts(of, seed, device)
    student = _student(of, mixed_seed(seed, 3)).to(device)
    masks = _masks(of, mixed_seed(seed, 4)).to(device)
    rules = [Adam(module.parameters(), of.joint_lr) for module in (student, masks)]
    signal = Implicit(Neumann(1, of.joint_lr))
    tutor = Tutor(student, rules[0], masks, rules[1], signal=signal, seed=mixed_seed(seed, 5))
    judging = map(parts.held_out.draw, count())
    for epoch in range(of.joint_epochs):
        for _ in alternating(tutor, parts.train.epoch(epoch), judging):
            pass
    return masks.requires_grad_(False)


def _central(of: Settings) -> AttentionMask:
    # logits that are all the same put the centre in the middle
    masks = _masks(of, 0)
    assert isinstance(masks.network, MaskUNet)
    nn.init.zeros_(masks.network.last.weight)
    return masks.requires_grad_(False)


def _teacher(arm: str, of: Settings, seed: int, device: torch.device) -> nn.Module:
    # what a new student sees images through, none of it learning any more
    match arm:
        case "learned":
            return _learned(of, seed, device)
        case "permuted":
            return Permuted(_learned(of, seed, device))
        case "random":
            return RandomMask(sigma=of.sigma)
        case "centre":
            return _central(of).to(device)
        case _:
            return Plain()


def _trained(tutor: Tutor, train: Batches, of: Settings) -> Iterator[float]:
    # the training loss of each epoch
    steps = [max(1, int(of.epochs * share)) for share in (0.3, 0.6, 0.8)]
    schedule = MultiStepLR(tutor.optimizer, steps)
    for epoch in range(of.epochs):
        losses = [tutor.step(batch).loss for batch in train.epoch(epoch)]
        schedule.step()
        yield float(torch.stack(losses).mean())


@torch.no_grad()
def _tested(tutor: Tutor, test: Batches) -> dict[str, float]:
    student, loss, right = tutor.student.eval(), 0.0, 0
    for batch in test.whole(500):
        logits = student(shown(tutor.task, batch).inputs)
        loss += float(F.cross_entropy(logits, batch.targets, reduction="sum"))
        right += int((logits.argmax(1) == batch.targets).sum())
    total = len(test.images)
    return {"test_accuracy": 100 * right / total, "test_loss": loss / total}


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one new student under one kind of masks, learned first where they are.

    Args:
        arm: Which masks.
        seed: Of everything that is drawn.
        settings: The scale's.
        device: Where.

    Returns:
        Accuracy and loss on test images seen through masks of the same kind.
    """
    parts = _parts(settings, seed, device)
    teacher = _teacher(arm, settings, seed, device)
    student = _student(settings, mixed_seed(seed, 6)).to(device)
    rule = SGD(
        student.parameters(), settings.lr, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    tutor = Tutor(student, rule, teacher, seed=mixed_seed(seed, 7))
    train = replace(parts.train, augment=_standard, seed=mixed_seed(seed, 8))
    losses = list(_trained(tutor, train, settings))
    return Outcome(_tested(tutor, parts.test), {"training loss": losses})


def _better(other: str) -> tuple[Comparison, ...]:
    # learned masks are, in both numbers of the table
    return (
        Comparison(("learned", "test_accuracy"), "above", (other, "test_accuracy")),
        Comparison(("learned", "test_loss"), "below", (other, "test_loss")),
    )


RECIPE = Recipe(
    name="commentaries-masks-cifar",
    title="Learned masks serve a student better than random ones, or the same on other images.",
    paper="commentaries",
    where="Table D.1, CIFAR-10",
    arms=ARMS,
    metrics={"test_accuracy": "at the end, %", "test_loss": "at the end, nats"},
    settings={
        "smoke": Settings(7.0, "resnet8-narrow", 20, 20, 20, 10, 1, 1e-3, 1),
        "mini": Settings(7.0, "resnet8-narrow", 3000, 1000, 3000, 64, 4, 1e-3, 8),
        "gpu": Settings(7.0, "resnet8-narrow", 20_000, 5_000, 10_000, 128, 4, 1e-3, 8),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 10, "gpu": 10, "paper": 900},
    run=run,
    claims=(
        Claim(
            "Learned masks do better than random ones, in accuracy and loss.", _better("random")
        ),
        Claim(
            "They do better than the same masks on other images, in accuracy and loss.",
            _better("permuted"),
        ),
    ),
    table="Table D.1",
    printed={
        (arm, m): (row, column) for arm, row in ROWS.items() for m, column in COLUMNS.items()
    },
    plots=(
        Plot("Training loss of new students", "nats", {a: (a, "training loss") for a in ARMS}),
    ),
    prepare=lambda _settings: _cifar10(),
    notes=(
        "The arms centre, a mask in the middle of every image, and none, no mask, are ours.",
        "Masks are learned anew for every seed; the paper trains three students under one set. "
        "Permuted masks are drawn anew within each batch; the paper permutes them once.",
        "Masks are put on images that have been cropped and mirrored. The paper does not say "
        "how long masks and student learn together, nor in which batches.",
        "At mini and gpu scale: ResNet-8 of 8 channels, not ResNet-18; masks of 7 pixels, not "
        "15, which lets a third of a corner through; fewer images and epochs; Adam at 1e-3, "
        "not 1e-4.",
    ),
)
