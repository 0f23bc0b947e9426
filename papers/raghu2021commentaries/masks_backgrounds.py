"""Masks keep a student from judging objects by the backgrounds that give them away.

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
    anywhere,
    attention_masks,
    centres,
    mask_drawing,
    middle,
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
"""folders of the published sets, where the command is given"""
AT_ONCE = 250  # images in a batch that is only looked at


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """What decides a job; the defaults are the paper's, or ours where it says nothing."""

    data: Literal["birds", "digits"] = "birds"
    sigma: Positive = 50.0  # standard deviation of a mask, pixels
    student: Student = "resnet18"  # see ``tutelage.models.STUDENTS``
    sizes: Sizes = SIZES  # images in each part; of digits alone, the birds are all taken
    batch: int = 128  # images per student step
    joint_epochs: int = 100  # in which masks and a first student learn together
    joint_lr: Positive = 1e-4  # of Adam for both of them, and the scale of the Neumann series
    epochs: int = 100  # of a new student under the masks as they then are
    lr: float = 0.01  # of its SGD; a tenth of that after half and nine tenths of the epochs

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self.sizes, *self.sizes._fields)


@cache
def _parts(settings: Settings, seed: int) -> ThreeParts:
    # made once in each process
    if settings.data == "birds":
        return birds_on_places(*BIRDS, Size(224, 224), pictures=1, seed=seed)
    return digit_parts(settings.sizes, seed=seed, side=14)


def _batches(settings: Settings, seed: int, device: torch.device) -> list[Batches]:
    images = [part.images for part in _parts(settings, mixed_seed(seed, 0))]
    return batches_of(images, [settings.batch] * 3, mixed_seed(seed, 1), device)


@cache
def _learned(settings: Settings, seed: int, device: torch.device) -> AttentionMask:
    # masks that have learned along with a student; once in each process
    train, held_out, _ = _batches(settings, seed, device)
    student = build_network(settings.student, train.examples, mixed_seed(seed, 2)).to(device)
    masks = attention_masks(3, settings.sigma, mixed_seed(seed, 3)).to(device)
    tutor = joint_tutor(student, masks, settings.joint_lr, seed=mixed_seed(seed, 4))
    for _ in learn_jointly(tutor, train, held_out, settings.joint_epochs):
        pass
    return masks.requires_grad_(False)


def _central(sigma: float) -> AttentionMask:
    # logits that are all the same put the centre in the middle
    masks = attention_masks(3, sigma, 0)
    assert isinstance(masks.network, MaskUNet)
    nn.init.zeros_(masks.network.last.weight)
    return masks.requires_grad_(False)


def _teacher(arm: str, settings: Settings, seed: int, device: torch.device) -> nn.Module:
    # what a new student sees images through, none of it learning any more
    match arm:
        case "learned":
            return _learned(settings, seed, device)
        case "centre":
            return _central(settings.sigma).to(device)
        case "random":
            return RandomMask(sigma=settings.sigma)
        case _:
            return Plain()


def places_of(teacher: nn.Module, test: Batches, seed: int) -> Tensor:
    """Where the mask of every image has its centre."""
    if isinstance(teacher, AttentionMask):
        return centres(teacher, test)
    if isinstance(teacher, RandomMask):
        return anywhere(test.examples, seed)
    return middle(test.examples)


def within(box: Tensor, places: Tensor) -> float:
    """The share of places that lie in the box of their image."""
    after = places + 0.5
    return float(((after >= box[:, :2]) & (after < box[:, 2:])).all(1).float().mean())


@torch.no_grad()
def _evaluate(tutor: Tutor, held_out: Batches, test: Batches) -> dict[str, float]:
    # what a student gets right where backgrounds help, and where they mislead
    found = {}
    for name, batches in (("held_out", held_out), ("test", test)):
        seen = (
            batch._replace(inputs=prediction_batch(tutor.problem, batch).inputs)
            for batch in batches.whole(AT_ONCE)
        )
        logits, true = predictions(tutor.student, seen)
        best = logits.topk(5).indices
        found[f"{name}_accuracy"] = accuracy(logits, true)
        found[f"{name}_top5"] = 100 * float((best == true[:, None]).any(1).float().mean())
        if name == "test":
            before = (true - 1) % len(test.examples.classes)
            found["taken_for_background"] = accuracy(logits, before)
    return found


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one new student under one kind of masks, learned first where they are."""
    train, held_out, test = _batches(settings, seed, device)
    teacher = _teacher(arm, settings, seed, device)
    student = build_network(settings.student, train.examples, mixed_seed(seed, 5)).to(device)
    optimizer = sgd(student, settings.lr, decay=5e-5)
    tutor = Tutor(student, optimizer, teacher, seed=mixed_seed(seed, 6))
    drops = [max(1, int(settings.epochs * share)) for share in (0.5, 0.9)]
    losses = fit(tutor, train, settings.epochs, MultiStepLR(optimizer, drops))
    places = places_of(teacher, test, mixed_seed(seed, 7))
    box = _parts(settings, mixed_seed(seed, 0)).test.facts["box"]
    metrics = _evaluate(tutor, held_out, test) | {"in_box": within(box, places)}
    drawings = {}
    if arm == "learned":
        drawings["masks"] = mask_drawing(test.examples, places, settings.sigma)
    return Outcome(metrics, {"training loss": losses}, drawings)


def _read(settings: Settings) -> None:
    if settings.data == "birds":
        _parts(settings, mixed_seed(0, 0))
    else:
        for name in ("mnist", "cifar100"):
            load_known(name)


RECIPE = Recipe(
    name="commentaries-masks-backgrounds",
    title="Learned masks keep students from judging objects by their backgrounds.",
    paper="commentaries",
    where="Table 3 and Figure 7",
    arms=ARMS,
    metrics={
        "held_out_accuracy": "on held-out images, whose backgrounds are as in training, %",
        "held_out_top5": "the true class among the five likeliest, %",
        "test_accuracy": "on test images, whose background is that of the class before, %",
        "test_top5": "the true class among the five likeliest, %",
        "taken_for_background": "test images taken for the class of their background, %",
        "in_box": "share of test images whose mask has its centre in the object's box; of the "
        "image's middle where there is no mask",
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
            "Where backgrounds mislead, a student does better through learned masks than "
            "without, in top-1 and top-5.",
            above("test_accuracy", "learned", "none") + above("test_top5", "learned", "none"),
        ),
        Claim(
            "Where backgrounds help, it does worse than without.",
            below("held_out_accuracy", "learned", "none")
            + below("held_out_top5", "learned", "none"),
        ),
        Claim(
            "Masks lie on the object: in its box more often than the image's middle, or a "
            "random place.",
            above("in_box", "learned", "centre", "random"),
        ),
        expectation(
            "It is learning where to look that helps where backgrounds mislead: learned masks "
            "do better than masks in the middle, or at random.",
            above("test_accuracy", "learned", "centre", "random"),
        ),
        expectation(
            "Fewer test images are taken for the class of their background.",
            below("taken_for_background", "learned", "none"),
        ),
    ),
    table="Table 3",
    printed={
        (arm, m): (row, column) for arm, row in ROWS.items() for m, column in COLUMNS.items()
    },
    plots=(
        curves("Training loss of new students", "nats", ARMS, "training loss"),
        Panel("Test images, their masks, and what is seen", "learned", "masks"),
    ),
    prepare=_read,
)
