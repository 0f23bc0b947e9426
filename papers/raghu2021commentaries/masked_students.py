"""Masks that learned along with a student, and what new students make of images under them."""

from collections import deque
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Adam

from papers import new_students
from tutelage.augment import crop_and_flip
from tutelage.models import MaskUNet, build_student, resnet8
from tutelage.models.catalogue import require_student
from tutelage.randomness import mixed_seed, seeded
from tutelage.signals import Implicit, Neumann
from tutelage.teachers import AttentionMask, Plain, RandomMask
from tutelage.teachers.attention_mask import gaussian
from tutelage.training.loops import alternating
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Lesson, as_lesson
from tutelage.validation.ranges import above_zero, at_least_one, not_negative, shares
from tutelage_cli.data.batches import Batches, statistics
from tutelage_cli.data.images import ImageSet

NARROW = "resnet8-narrow"
"""a student: ResNet-8 of 8, 16 and 32 channels"""


@dataclass(frozen=True)
class Settings:
    """What decides a job; the defaults are the paper's, or ours where it says nothing."""

    data: str
    """the set of images"""
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
    """of its SGD"""
    drops: tuple[float, ...] = (0.3, 0.6, 0.8)
    """shares of the epochs after which that falls to a tenth"""
    mirrored: bool = True
    """whether a new student sees images mirrored at random, besides cropped"""

    def __post_init__(self) -> None:
        """Check what can be checked without the data; ``UsageError`` where a value is wrong."""
        at_least_one(self, "train", "held_out", "tested", "batch")
        at_least_one(self, "joint_epochs", "epochs")
        above_zero(self, "sigma", "joint_lr")
        not_negative(self, "lr")
        shares(self, "drops")
        if self.student != NARROW:
            require_student(self.student)


class Parts(NamedTuple):
    """Images of one task."""

    train: ImageSet
    held_out: ImageSet
    """they judge the masks"""
    test: ImageSet


class InLastChannel(nn.Module):
    """Shows images through masks that lie in their last channel, so that both move together."""

    at_test = True

    def prepare(self, batch: Batch) -> Lesson:
        """Mask a batch."""
        seen = batch.inputs[:, :-1] * batch.inputs[:, -1:]
        return as_lesson(batch)._replace(inputs=seen)


class Places(NamedTuple):
    """Where the masks of all images are: row and column of each centre, pixels."""

    train: Tensor
    """[N, 2]"""
    test: Tensor


def _batches(
    parts: Parts, images: ImageSet, of: Settings, seed: int, device: torch.device
) -> Batches:
    mean, std = statistics(parts.train)
    return Batches(images, of.batch, seed, mean, std, None, device)


def _student(parts: Parts, of: Settings, seed: int) -> nn.Module:
    classes, (channels, size, _) = len(parts.train.classes), parts.train.images.shape[1:]
    if of.student == NARROW:
        with seeded(seed, torch.device("cpu")):
            return resnet8(classes=classes, channels=channels, width=8)
    return build_student(of.student, classes=classes, channels=channels, size=size, seed=seed)


def learned(parts: Parts, of: Settings, seed: int, device: torch.device) -> AttentionMask:
    """Masks that have learned along with a student by algorithm 2."""
    train = _batches(parts, parts.train, of, mixed_seed(seed, 2), device)
    judging = _batches(parts, parts.held_out, of, mixed_seed(seed, 2), device)
    student = _student(parts, of, mixed_seed(seed, 3)).to(device)
    with seeded(mixed_seed(seed, 4), torch.device("cpu")):
        network = MaskUNet(parts.train.images.shape[1], width=8, levels=1)
    masks = AttentionMask(network, sigma=of.sigma).to(device)
    rules = [Adam(module.parameters(), of.joint_lr) for module in (student, masks)]
    signal = Implicit(Neumann(1, of.joint_lr))
    tutor = Tutor(student, rules[0], masks, rules[1], signal=signal, seed=mixed_seed(seed, 5))
    judges = map(judging.draw, count())
    for batches in map(train.epoch, range(of.joint_epochs)):
        deque(alternating(tutor, batches, judges), maxlen=0)  # for the steps alone
    return masks.requires_grad_(False)


@torch.no_grad()
def places(parts: Parts, masks: AttentionMask, of: Settings, device: torch.device) -> Places:
    """Where masks are."""

    def on(images: ImageSet) -> Tensor:
        whole = _batches(parts, images, of, 0, device).whole(500)
        return torch.cat([masks.centres(batch.inputs) for batch in whole]).cpu()

    return Places(on(parts.train), on(parts.test))


def permuted(at: Places, seed: int) -> Places:
    """The same places on other images: paired anew once over each set."""
    draws = torch.Generator().manual_seed(mixed_seed(seed, 9))
    return Places(*(where[torch.randperm(len(where), generator=draws)] for where in at))


def middle(parts: Parts) -> Places:
    """The middle of every image."""
    centre = torch.tensor([(side - 1) / 2 for side in parts.train.images.shape[2:]])
    return Places(*(centre.expand(len(p), 2) for p in (parts.train, parts.test)))


def beside(images: ImageSet, where: Tensor, sigma: float) -> ImageSet:
    """Images with their masks, in bytes, as one more channel."""
    height, width = images.images.shape[2:]
    masks = (255 * gaussian(where, height, width, sigma)).round().to(torch.uint8)
    return replace(images, images=torch.cat([images.images, masks], 1))


def trained(
    parts: Parts, at: Places | RandomMask | None, of: Settings, seed: int, device: torch.device
) -> tuple[dict[str, float], list[float]]:
    """Train a new student under masks, and test it under masks of the same kind."""
    mean, std = statistics(parts.train)
    train, test, teacher = parts.train, parts.test, at or Plain()
    if isinstance(at, Places):
        train, test = (
            beside(images, where, of.sigma)
            for images, where in zip((parts.train, parts.test), at, strict=True)
        )
        teacher = InLastChannel()
        mean, std = torch.cat([mean, torch.zeros(1)]), torch.cat([std, torch.ones(1)])
    assert isinstance(teacher, nn.Module)

    def augment(images: Tensor, seed: int) -> Tensor:
        return crop_and_flip(images, seed=seed, mode="zeros", flip=of.mirrored)

    student = _student(parts, of, mixed_seed(seed, 6)).to(device)
    rule = new_students.sgd(student, of.lr)
    tutor = Tutor(student, rule, teacher, seed=mixed_seed(seed, 7))
    learning = Batches(train, of.batch, mixed_seed(seed, 8), mean, std, augment, device)
    drops = [max(1, round(of.epochs * share)) for share in of.drops]
    losses = new_students.trained(tutor, learning, of.epochs, drops)
    return new_students.tested(tutor, replace(learning, images=test)), losses
