"""Learned masks, which keep a student from classifying objects by their backgrounds.

Raghu et al. 2021, section 5.2, Table 3 and Figure 7. Figures: ``docs/results.md``.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import MultiStepLR

from papers.data.published.cub import birds_on_places
from papers.framework.recipe import Outcome, Panel, Recipe, above, below, curves, expectation
from papers.framework.settings import Positive, RecipeSettings, Student
from papers.raghu2021commentaries.masks_table import (
    attention_masks,
    centres,
    mask_drawing,
    middles,
    random_centres,
)
from papers.students import (
    accuracy,
    batches_of,
    build_network,
    fit,
    joint_tutor,
    learn_jointly,
    predictions,
    sgd,
)
from tutelage.models import MaskUNet
from tutelage.randomness import mixed_seed
from tutelage.teachers import AttentionMask, Plain, RandomMask
from tutelage.training.forward import prediction_batch
from tutelage.training.tutor import Tutor
from tutelage.validation.ranges import at_least_one
from tutelage_cli.claims import Claim
from tutelage_cli.data.batches import Batches
from tutelage_cli.data.images import ThreeParts
from tutelage_cli.data.local import load_known
from tutelage_cli.data.resize import Size
from tutelage_cli.data.synthetic.named import SIZES, Sizes, digit_parts

ARMS = ("learned", "none", "centre", "random")
ROWS = {"none": "Baseline (No masks)", "learned": "With Masking Network"}
COLUMNS = {
    "held_out_accuracy": "Validation Top 1",
    "held_out_top5": "Validation Top 5",
    "test_accuracy": "Test (shift) Top 1",
    "test_top5": "Test (shift) Top 5",
}
BIRDS = Path("CUB_200_2011"), Path("places365")
"""folders of the published data sets, in the current folder"""
EVALUATION_BATCH = 250  # images


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's, or ours where it gives none."""

    data: Literal["birds", "digits"] = "birds"
    sigma: Positive = 50.0  # standard deviation of a mask, pixels
    student: Student = "resnet18"  # see ``tutelage.models.STUDENTS``
    sizes: Sizes = SIZES  # images in each part of the digits; all birds are used
    batch: int = 128  # images per student step
    joint_epochs: int = 100  # in which masks and a first student are learned together
    joint_lr: Positive = 1e-4  # of Adam for both of them, and the scale of the Neumann series
    epochs: int = 100  # of a new student with fixed masks
    lr: float = 0.01  # of its SGD; divided by 10 after half and nine tenths of the epochs

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self.sizes, *self.sizes._fields)


@cache
def _parts(settings: Settings, seed: int) -> ThreeParts:
    # read or generated once in each process
    if settings.data == "birds":
        return birds_on_places(*BIRDS, Size(224, 224), pictures=1, seed=seed)
    return digit_parts(settings.sizes, seed=seed, side=14)


def _batches(settings: Settings, seed: int, device: torch.device) -> list[Batches]:
    images = [part.images for part in _parts(settings, mixed_seed(seed, 0))]
    return batches_of(images, [settings.batch] * 3, mixed_seed(seed, 1), device)


@cache
def _learned(settings: Settings, seed: int, device: torch.device) -> AttentionMask:
    # masks that were learned together with a student; once in each process
    train, held_out, _ = _batches(settings, seed, device)
    student = build_network(settings.student, train.examples, mixed_seed(seed, 2)).to(device)
    masks = attention_masks(3, settings.sigma, mixed_seed(seed, 3)).to(device)
    tutor = joint_tutor(student, masks, settings.joint_lr, seed=mixed_seed(seed, 4))
    for _ in learn_jointly(tutor, train, held_out, settings.joint_epochs):
        pass
    return masks.requires_grad_(False)


def _central(sigma: float) -> AttentionMask:
    # equal logits put the centre of every mask in the middle
    masks = attention_masks(3, sigma, 0)
    assert isinstance(masks.network, MaskUNet)
    nn.init.zeros_(masks.network.last.weight)
    return masks.requires_grad_(False)


def _teacher(arm: str, settings: Settings, seed: int, device: torch.device) -> nn.Module:
    # the fixed teacher of an arm, which masks a new student's images
    match arm:
        case "learned":
            return _learned(settings, seed, device)
        case "centre":
            return _central(settings.sigma).to(device)
        case "random":
            return RandomMask(sigma=settings.sigma)
        case _:
            return Plain()


def centres_in_arm(teacher: nn.Module, test: Batches, seed: int) -> Tensor:
    """The centre of the mask of every image; without a mask, the middle of the image."""
    if isinstance(teacher, AttentionMask):
        return centres(teacher, test)
    if isinstance(teacher, RandomMask):
        return random_centres(test.examples, seed)
    return middles(test.examples)


def share_in_box(box: Tensor, centres: Tensor) -> float:
    """The share of centres that lie in the box of their image."""
    points = (
        centres + 0.5
    )  # centres count from the middle of the first pixel, boxes from its edge
    return float(((points >= box[:, :2]) & (points < box[:, 2:])).all(1).float().mean())


@torch.no_grad()
def _evaluate(tutor: Tutor, held_out: Batches, test: Batches) -> dict[str, float]:
    # metrics on held-out images, whose backgrounds help, and on test images, where they mislead
    metrics = {}
    for name, batches in (("held_out", held_out), ("test", test)):
        masked = (
            batch._replace(inputs=prediction_batch(tutor.problem, batch).inputs)
            for batch in batches.whole(EVALUATION_BATCH)
        )
        logits, labels = predictions(tutor.student, masked)
        best = logits.topk(5).indices
        metrics[f"{name}_accuracy"] = accuracy(logits, labels)
        metrics[f"{name}_top5"] = 100 * float((best == labels[:, None]).any(1).float().mean())
        if name == "test":
            background = (labels - 1) % len(test.examples.classes)
            metrics["taken_for_background"] = accuracy(logits, background)
    return metrics


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train the new student of one arm; learned masks are learned first."""
    train, held_out, test = _batches(settings, seed, device)
    teacher = _teacher(arm, settings, seed, device)
    student = build_network(settings.student, train.examples, mixed_seed(seed, 5)).to(device)
    optimizer = sgd(student, settings.lr, decay=5e-5)
    tutor = Tutor(student, optimizer, teacher, seed=mixed_seed(seed, 6))
    milestones = [max(1, int(settings.epochs * share)) for share in (0.5, 0.9)]
    losses = fit(tutor, train, settings.epochs, MultiStepLR(optimizer, milestones))
    where = centres_in_arm(teacher, test, mixed_seed(seed, 7))
    box = _parts(settings, mixed_seed(seed, 0)).test.facts["box"]
    metrics = _evaluate(tutor, held_out, test) | {"in_box": share_in_box(box, where)}
    drawings = {}
    if arm == "learned":
        drawings["masks"] = mask_drawing(test.examples, where, settings.sigma)
    return Outcome(metrics, {"training loss": losses}, drawings)


def _read(settings: Settings) -> None:
    if settings.data == "birds":
        _parts(settings, mixed_seed(0, 0))
    else:
        for name in ("mnist", "cifar100"):
            load_known(name)


RECIPE = Recipe(
    name="commentaries-masks-backgrounds",
    title="Learned masks keep students from classifying objects by their backgrounds.",
    paper="commentaries",
    where="Table 3 and Figure 7",
    arms=ARMS,
    metrics={
        "held_out_accuracy": "on held-out images, with backgrounds as in training, %",
        "held_out_top5": "top-5 accuracy on the same images, %",
        "test_accuracy": "on test images, each with the background of the previous class, %",
        "test_top5": "top-5 accuracy on the same images, %",
        "taken_for_background": "test images classified as the class of their background, %",
        "in_box": "share of test images with the mask centre in the object's bounding box; "
        "without a mask, with the middle of the image",
    },
    settings={
        "smoke": Settings("digits", 5.0, "cnn", Sizes(20, 20, 20), 10, 1, 1e-3, 1),
        "mini": Settings("digits", 5.0, "cnn", Sizes(4000, 1000, 2000), 32, 4, 1e-3, 6),
        "gpu": Settings(
            "digits", 5.0, "cnn", batch=64, joint_epochs=15, joint_lr=1e-3, epochs=20
        ),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 4, "gpu": 10, "paper": 300},
    run=run,
    claims=(
        Claim(
            "With misleading backgrounds (test images), learned masks give a higher top-1 and "
            "top-5 accuracy than no masks.",
            above("test_accuracy", "learned", "none") + above("test_top5", "learned", "none"),
        ),
        Claim(
            "With helpful backgrounds (held-out images), learned masks give a lower top-1 and "
            "top-5 accuracy than no masks.",
            below("held_out_accuracy", "learned", "none")
            + below("held_out_top5", "learned", "none"),
        ),
        Claim(
            "Learned masks lie on the object: their centre is in its bounding box more often "
            "than the middle of the image, or a random position.",
            above("in_box", "learned", "centre", "random"),
        ),
        expectation(
            "With misleading backgrounds, learned masks give a higher accuracy than masks in "
            "the middle of the image, and than masks at random positions.",
            above("test_accuracy", "learned", "centre", "random"),
        ),
        expectation(
            "With learned masks, fewer test images are classified as the class of their "
            "background than without masks.",
            below("taken_for_background", "learned", "none"),
        ),
    ),
    table="Table 3",
    printed={
        (arm, m): (row, column) for arm, row in ROWS.items() for m, column in COLUMNS.items()
    },
    plots=(
        curves("Training loss of new students", "nats", ARMS, "training loss"),
        Panel("Test images, masks and masked images", "learned", "masks"),
    ),
    prepare=_read,
)
