"""Learned masks, compared with the same masks on other images and with random masks.

Raghu et al. 2021, Table D.1. Figures: ``docs/results.md``.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import MultiStepLR

from papers.framework.drawings import Drawing, apply_masks, image_rows
from papers.framework.recipe import Outcome, Panel, Recipe, above, below, better, curves
from papers.framework.settings import Positive, RecipeSettings, Shares
from papers.students import (
    ImageParts,
    Network,
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
from tutelage.augment import crop_and_flip
from tutelage.models import MaskUNet
from tutelage.randomness import mixed_seed, seeded
from tutelage.teachers import AttentionMask, Plain, RandomMask
from tutelage.teachers.attention_mask import gaussian
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, PreparedBatch, as_prepared
from tutelage_cli.claims import Claim
from tutelage_cli.data.batches import Batches, CollateImages, statistics
from tutelage_cli.data.images import ImageSet

EVALUATION_BATCH = 500  # images
DRAWN = 8  # images in the drawing


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's, or ours where it gives none."""

    data: str  # the set of images
    sigma: Positive = 15.0  # standard deviation of a mask, pixels
    student: Network = "resnet18-cifar"
    """see ``tutelage.models.STUDENTS`` and ``papers.students.SLIM``"""
    train: int = 45_000  # images on which masks are learned, and then students trained
    held_out: int = 5_000  # images of the held-out loss
    tested: int = 10_000  # test images
    batch: int = 128  # images per student step
    joint_epochs: int = 100  # in which masks and a first student are learned together
    joint_lr: Positive = 1e-4  # of Adam for both of them, and the scale of the Neumann series
    epochs: int = 100  # of a new student with fixed masks
    lr: float = 0.1  # of its SGD
    drops: Shares = (0.3, 0.6, 0.8)  # shares of the epochs after which ``lr`` is divided by 10
    mirrored: bool = True
    """whether a new student's images are mirrored at random; they are always cropped"""


class InLastChannel(nn.Module):
    """Multiplies images by their last channel: a mask, cropped and mirrored with them."""

    at_test = True

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Mask a batch."""
        masked = batch.inputs[:, :-1] * batch.inputs[:, -1:]
        return as_prepared(batch)._replace(inputs=masked)


class Centres(NamedTuple):
    """The centres of the masks of all images: row and column, pixels."""

    train: Tensor  # [N, 2]
    test: Tensor


def attention_masks(channels: int, sigma: float, seed: int) -> AttentionMask:
    """Masks by a new U-Net with the sizes of the paper's code."""
    with seeded(seed):
        network = MaskUNet(channels, width=8, levels=1)
    return AttentionMask(network, sigma=sigma)


def learned(
    parts: ImageParts, settings: Settings, seed: int, device: torch.device
) -> AttentionMask:
    """Masks that were learned together with a student by algorithm 2."""
    sizes = settings.batch, settings.batch
    train, held_out = batches_of(parts[:2], sizes, mixed_seed(seed, 2), device)
    student = build_network(settings.student, parts.train, mixed_seed(seed, 3)).to(device)
    channels = parts.train.images.shape[1]
    masks = attention_masks(channels, settings.sigma, mixed_seed(seed, 4)).to(device)
    tutor = joint_tutor(student, masks, settings.joint_lr, seed=mixed_seed(seed, 5))
    for _ in learn_jointly(tutor, train, held_out, settings.joint_epochs):
        pass
    return masks.requires_grad_(False)


def learned_centres(
    parts: ImageParts, settings: Settings, seed: int, device: torch.device
) -> Centres:
    """The centres of masks that were learned together with a student."""
    masks = learned(parts, settings, seed, device)
    both = batches_of((parts.train, parts.test), (1, 1), 0, device)
    return Centres(*(centres(masks, batches) for batches in both))


@torch.no_grad()
def centres(masks: AttentionMask, batches: Batches) -> Tensor:
    """The centre of the mask of every image [N, 2]."""
    return torch.cat([masks.centres(b.inputs) for b in batches.whole(EVALUATION_BATCH)]).cpu()


def permuted(learned: Centres, seed: int) -> Centres:
    """The same centres, randomly permuted over the images of each part."""
    generator = torch.Generator().manual_seed(mixed_seed(seed, 9))
    return Centres(*(part[torch.randperm(len(part), generator=generator)] for part in learned))


def middles(images: ImageSet) -> Tensor:
    """The middle of every image [N, 2]."""
    sides = torch.tensor(images.images.shape[2:])
    return ((sides - 1) / 2).expand(len(images), 2)


def random_centres(images: ImageSet, seed: int) -> Tensor:
    """A random position in every image [N, 2]."""
    generator, sides = (
        torch.Generator().manual_seed(seed),
        torch.tensor(images.images.shape[2:]),
    )
    return torch.rand(len(images), 2, generator=generator) * sides - 0.5


def with_mask_channel(images: ImageSet, where: Tensor, sigma: float) -> ImageSet:
    """Images with their masks, scaled to 0..255, as one more channel."""
    height, width = images.images.shape[2:]
    masks = (255 * gaussian(where, height, width, sigma)).round().to(torch.uint8)
    return replace(images, images=torch.cat([images.images, masks], 1))


def masks_in_arm(
    arm: str, parts: ImageParts, learned: Centres, sigma: float, seed: int
) -> Centres | RandomMask | None:
    """The masks of an arm: fixed centres, random masks at every step, or none."""
    match arm:
        case "learned":
            return learned
        case "permuted":
            return permuted(learned, seed)
        case "random":
            return RandomMask(sigma=sigma)
        case "centre":
            return Centres(middles(parts.train), middles(parts.test))
        case _:
            return None


def masked(
    parts: ImageParts,
    masks: Centres | RandomMask | None,
    settings: Settings,
    seed: int,
    device: torch.device,
) -> Outcome:
    """Train a new student on masked images, and test it with masks of the same kind.

    Args:
        parts: The images.
        masks: See ``masks_in_arm``.
        settings: Settings of the job.
        seed: Seed of the student and of its training.
        device: Where it is trained.
    """
    mean, std = statistics(parts.train)
    train, test, teacher = parts.train, parts.test, Plain()
    if isinstance(masks, Centres):
        train = with_mask_channel(train, masks.train, settings.sigma)
        test = with_mask_channel(test, masks.test, settings.sigma)
        mean, std = torch.cat([mean, torch.zeros(1)]), torch.cat([std, torch.ones(1)])
        teacher = InLastChannel()
    elif masks is not None:
        teacher = masks

    def augment(images: Tensor, seed: int) -> Tensor:
        return crop_and_flip(images, seed=seed, mode="zeros", flip=settings.mirrored)

    student = build_network(settings.student, parts.train, mixed_seed(seed, 6)).to(device)
    optimizer = sgd(student, settings.lr)
    tutor = Tutor(student, optimizer, teacher, seed=mixed_seed(seed, 7))
    collate = CollateImages(mean, std, augment)
    batches = Batches(train, settings.batch, mixed_seed(seed, 8), collate, device)
    milestones = [max(1, round(settings.epochs * share)) for share in settings.drops]
    losses = fit(tutor, batches, settings.epochs, MultiStepLR(optimizer, milestones))
    return Outcome(evaluate(tutor, replace(batches, examples=test)), {"training loss": losses})


def mask_drawing(images: ImageSet, where: Tensor, sigma: float) -> Drawing:
    """The first images of every class, their masks, and the masked images."""
    rows = interleave_classes(images.labels)[:DRAWN].sort().values
    rows = rows[images.labels[rows].argsort(stable=True)]
    pixels, (height, width) = images.images[rows], images.images.shape[2:]
    masks = gaussian(where[rows], height, width, sigma)
    drawn = {
        "image": pixels,
        "mask": apply_masks(torch.full_like(pixels[:, :1], 255), masks),
        "seen": apply_masks(pixels, masks),
    }
    return image_rows(drawn, [images.classes[n] for n in images.labels[rows].tolist()])


def interleave_classes(labels: Tensor) -> Tensor:
    """Row indices, ordered so that each class occurs once before one occurs again."""
    classes = torch.arange(int(labels.max()) + 1)
    occurrence = (labels[:, None] == classes).cumsum(0).gather(1, labels[:, None]).squeeze(1)
    return (occurrence * len(classes) + labels).argsort()


ARMS = ("learned", "permuted", "random", "centre", "none")
ROWS = {"learned": "Learned mask", "permuted": "Permuted learned mask", "random": "Random mask"}
SMALL = replace(
    Settings("cifar10"),
    sigma=7.0,
    student="resnet8-narrow",
    joint_epochs=4,
    joint_lr=1e-3,
    epochs=8,
    drops=(0.6, 0.85),
)


def masks_recipe(data: str, column: str) -> Recipe:
    """The recipe of the half of the table for one data set."""
    name = "commentaries-masks-" + {"cifar10": "cifar"}.get(data, data)
    columns = {"test_accuracy": f"{column} Test Accuracy", "test_loss": f"{column} Test Loss"}
    small = replace(SMALL, data=data)
    few = {"train": 100, "held_out": 100, "tested": 20, "batch": 50}
    tiny = replace(small, **few, joint_epochs=1, epochs=1)
    mini = replace(small, train=3000, held_out=1000, tested=5000, batch=64)
    return Recipe(
        name=name,
        title="Learned masks give better results than random masks or other images' masks.",
        paper="commentaries",
        where=f"Table D.1, {column[:5]}-{column[5:]}",
        arms=ARMS,
        metrics={
            "test_accuracy": "at the end of training, %",
            "test_loss": "at the end of training, nats",
        },
        settings={
            "smoke": tiny,
            "mini": mini,
            "gpu": replace(small, train=20_000),
            "paper": Settings(data),
        },
        minutes={"smoke": 0.5, "mini": 7, "gpu": 10, "paper": 900},
        run=run,
        claims=(
            Claim(
                "Learned masks give a higher test accuracy and a lower test loss than random "
                "masks.",
                better("learned", "random"),
            ),
            Claim(
                "Learned masks give a lower test loss than the same masks permuted over "
                "images.",
                below("test_loss", "learned", "permuted"),
            ),
            Claim(
                "Learned masks give a higher test accuracy than the same masks permuted over "
                "images.",
                above("test_accuracy", "learned", "permuted"),
            ),
        ),
        table="Table D.1",
        printed={
            (arm, m): (row, cell) for arm, row in ROWS.items() for m, cell in columns.items()
        },
        plots=(
            Panel("Test images, masks and masked images", "learned", "masks"),
            curves("Training loss of new students", "nats", ARMS, "training loss"),
        ),
        prepare=lambda settings: splits(settings.data),
    )


def _parts(settings: Settings, seed: int) -> ImageParts:
    sizes = settings.train, settings.held_out, settings.tested
    return balanced_parts(settings.data, *sizes, seed)


@cache
def _learned(settings: Settings, seed: int, device: torch.device) -> Centres:
    # learned once in each process
    return learned_centres(_parts(settings, seed), settings, seed, device)


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train the new student of one arm; learned masks are learned first."""
    parts = _parts(settings, seed)
    learned = Centres(*[torch.empty(0)] * 2)
    if arm in ("learned", "permuted"):
        learned = _learned(settings, seed, device)
    masks = masks_in_arm(arm, parts, learned, settings.sigma, seed)
    outcome = masked(parts, masks, settings, seed, device)
    if arm != "learned":
        return outcome
    drawing = mask_drawing(parts.test, learned.test, settings.sigma)
    return outcome._replace(drawings={"masks": drawing})


CIFAR10 = masks_recipe("cifar10", "CIFAR10")
CIFAR100 = masks_recipe("cifar100", "CIFAR100")
