"""What several recipes share: image sets, students, and their training and testing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from itertools import chain, count
from math import nan
from pathlib import Path
from typing import Annotated, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import LRScheduler

from tutelage.augment import crop_and_flip
from tutelage.errors import UsageError
from tutelage.losses.objectives import logits_of
from tutelage.models import build_student
from tutelage.models.catalogue import require_student
from tutelage.models.cifar_resnet import CifarResNet
from tutelage.randomness import mixed_seed, seeded
from tutelage.signals import Implicit, Neumann
from tutelage.training.forward import prediction_batch
from tutelage.training.loops import alternating
from tutelage.training.tutor import Tutor
from tutelage.types import Batch
from tutelage_cli.data.batches import Batches, CollateImages, statistics
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.local import load_known, local_folder
from tutelage_cli.data.splits import balanced_rows, limit_rows

SLIM = {"resnet8-slim": (8, 8), "resnet8-narrow": (8, 8), "resnet14-slim": (14, 4)}
"""depth and width of the ResNets that stand in at small scales"""


class ImageParts(NamedTuple):
    """Images of one seed, none of them cropped or mirrored."""

    train: ImageSet
    held_out: ImageSet
    test: ImageSet


@runtime_checkable
class Epochs(Protocol):
    """Minibatches by epoch."""

    def epoch(self, number: int, /) -> Iterable[Batch]:
        """The batches of an epoch."""
        ...


Network = Annotated[str, lambda settings, name: require_network(getattr(settings, name))]
"""a name of ``tutelage.models.STUDENTS``, or of ``SLIM``"""
splits: Callable[[str], Splits[ImageSet]] = cache(load_known)
"""a known data set, read once in each process"""


def find_folder(name: str, otherwise: str) -> Path:
    """A folder by its path, or by its name in ``$TUTELAGE_DATA``; says what to do otherwise."""
    if (place := Path(name).expanduser()).is_dir():
        return place
    if (copy := local_folder(name)) is not None:
        return copy
    raise UsageError(f"{name} is not here: {otherwise}.")


def require_network(name: str) -> None:
    """Refuse a name that is neither a student's nor one of ``SLIM``."""
    if name not in SLIM:
        require_student(name)


def build_network(name: str, images: ImageSet, seed: int) -> nn.Module:
    """A student of that name, newly initialised on the CPU, for some images."""
    classes, (channels, size) = len(images.classes), images.images.shape[1:3]
    if name in SLIM:
        depth, width = SLIM[name]
        with seeded(seed):
            return CifarResNet(depth, classes, channels, width)
    return build_student(name, classes=classes, channels=channels, size=size, seed=seed)


def balanced_indices(
    images: ImageSet, train: int, held_out: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Rows to train on and to hold out, as many of every class."""
    labels, classes = images.labels, len(images.classes)
    chosen, others = balanced_rows(labels, held_out, classes, seed=mixed_seed(seed, 0))
    kept, _ = balanced_rows(labels[others], train, classes, seed=mixed_seed(seed, 1))
    return others[kept], chosen


def balanced_parts(data: str, train: int, held_out: int, tested: int, seed: int) -> ImageParts:
    """Training and held-out images in balance over classes, and the first test images."""
    whole, test = splits(data).train, splits(data).test
    kept, chosen = balanced_indices(whole, train, held_out, seed)
    return ImageParts(whole.rows(kept), whole.rows(chosen), test.rows(torch.arange(tested)))


def batches_of(
    parts: Sequence[ImageSet], sizes: Sequence[int], seed: int, device: torch.device
) -> list[Batches]:
    """Batches of image sets, normalised by the statistics of the first, not augmented."""
    collate = CollateImages(*statistics(parts[0]))
    sized = zip(parts, sizes, strict=True)
    return [Batches(images, size, seed, collate, device) for images, size in sized]


def augmented(batches: Batches[ImageSet]) -> Batches[ImageSet]:
    """The same batches, of images that are cropped and mirrored."""
    assert isinstance(batches.collate, CollateImages)
    collate = replace(batches.collate, augment=cropped_and_mirrored)
    return replace(batches, collate=collate)


def limited(images: ImageSet, size: int | None, seed: int) -> ImageSet:
    """So many images in balance over classes; all of them where ``size`` is None."""
    if size is None:
        return images
    return images.rows(limit_rows(images.labels, size, len(images.classes), seed=seed))


def sgd(student: nn.Module, lr: float, *, decay: float = 5e-4) -> SGD:
    """SGD with Nesterov momentum.

    Source: Raghu et al. 2021, appendices C and D.
    """
    return SGD(student.parameters(), lr, momentum=0.9, nesterov=True, weight_decay=decay)


def cropped_and_mirrored(images: Tensor, seed: int) -> Tensor:
    """Random crops after padding with black, mirrored at random."""
    return crop_and_flip(images, seed=seed, mode="zeros")


def fit(
    tutor: Tutor,
    train: Epochs,
    epochs: int,
    schedule: LRScheduler,
    *,
    every_step: bool = False,
    after_epoch: Callable[[], object] = lambda: None,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> list[float]:
    """Train a student, and return the mean loss of each epoch.

    The learning rate follows ``schedule`` after each epoch, or each step where ``every_step``.
    """
    means = []
    for epoch in range(epochs):
        tutor.student.train()
        losses = []
        for batch in train.epoch(epoch):
            with autocast():
                losses.append(tutor.step(batch).loss)
            if every_step:
                schedule.step()
        if not every_step:
            schedule.step()
        means.append(float(torch.stack(losses).mean()))
        after_epoch()
    return means


def joint_tutor(
    student: nn.Module,
    teacher: nn.Module,
    lr: float,
    *,
    seed: int,
    teacher_lr: float | None = None,
) -> Tutor:
    """A student and a teacher that learn together, each by Adam.

    Source: Raghu et al. 2021, algorithm 2, with one term of the Neumann series.
    """
    learner = Adam(teacher.parameters(), lr if teacher_lr is None else teacher_lr)
    optimizer, signal = Adam(student.parameters(), lr), Implicit(Neumann(1, lr))
    return Tutor(student, optimizer, teacher, learner, signal=signal, seed=seed)


def learn_jointly(
    tutor: Tutor, train: Batches, held_out: Batches, epochs: int
) -> Iterator[float]:
    """Train a student with its teacher learning along; yields each epoch's held-out loss."""
    draws = map(held_out.draw, count())
    for epoch in range(epochs):
        records = alternating(tutor, train.epoch(epoch), draws)
        losses = [r.held_out_loss for r in records if r.held_out_loss is not None]
        yield float(torch.stack(losses).mean())


def endless(batches: Epochs, first: int = 0) -> Iterator[Batch]:
    """One epoch after the other."""
    return chain.from_iterable(map(batches.epoch, count(first)))


@torch.no_grad()
def predictions(student: nn.Module, batches: Iterable[Batch]) -> tuple[Tensor, Tensor]:
    """Outputs of a student in evaluation mode, and the targets."""
    student.eval()
    seen = [(logits_of(student(batch.inputs)), batch.targets) for batch in batches]
    outputs, targets = (torch.cat(column) for column in zip(*seen, strict=True))
    return outputs, targets


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    """The share of right answers, %."""
    return 100 * float((outputs.argmax(1) == targets).float().mean())


def correlation(one: Tensor, other: Tensor, *, constant: float = nan) -> float:
    """Pearson's correlation; ``constant`` where one of the two does not vary."""
    return float(torch.corrcoef(torch.stack([one, other]))[0, 1].nan_to_num(constant))


@torch.no_grad()
def evaluate(tutor: Tutor, test: Batches) -> dict[str, float]:
    """Accuracy, %, and loss, nats, on images as the teacher shows them at test."""
    student, loss, right = tutor.student.eval(), 0.0, 0
    for batch in test.whole(500):
        logits = student(prediction_batch(tutor.problem, batch).inputs)
        loss += float(F.cross_entropy(logits, batch.targets, reduction="sum"))
        right += int((logits.argmax(1) == batch.targets).sum())
    total = len(test.examples)
    return {"test_accuracy": 100 * right / total, "test_loss": loss / total}
