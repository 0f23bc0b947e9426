"""Learned masks beside the same masks on other images, and masks at random places.

Raghu et al. 2021, Table D.1. Figures: ``docs/results.md``.
"""

from dataclasses import replace
from functools import cache

import torch

from papers.framework.recipe import Outcome, Panel, Plot, Recipe
from papers.raghu2021commentaries.drawn_masks import drawn
from papers.raghu2021commentaries.masked_students import (
    NARROW,
    Parts,
    Places,
    Settings,
    learned,
    middle,
    permuted,
    places,
    trained,
)
from tutelage.randomness import mixed_seed
from tutelage.teachers import RandomMask
from tutelage_cli.claims import Claim, Comparison
from tutelage_cli.data.images import Splits
from tutelage_cli.data.local import load_known
from tutelage_cli.data.splits import balanced_rows

ARMS = ("learned", "permuted", "random", "centre", "none")
ROWS = {
    "learned": "Learned mask",
    "permuted": "Permuted learned mask",
    "random": "Random mask",
}
NOTES = (
    "The arms centre, a mask in the middle of every image, and none, no mask, are ours.",
    "Masks are learned anew for every seed; the paper trains three students under one set. "
    "Masks are predicted once for every image; image and mask are then cropped and mirrored "
    "together, and permuted ones are paired anew once over each whole set.",
    "The paper does not say how long masks and student learn together, nor in which batches.",
    "At mini and gpu scale: ResNet-8 of 8 channels, not ResNet-18; masks of 7 pixels, not 15, "
    "which lets a third of a corner through; fewer images and epochs; Adam at 1e-3, not 1e-4; "
    "the students' learning rate falls late, after 60% and 85% of their few epochs.",
)
FIRST_SEED = (
    "A first run of one seed permuted masks within each batch, tested on 3,000 images and let "
    "the learning rate fall after 2, 4 and 6 of 8 epochs: learned 38.0% and 1.649, permuted "
    "37.5% and 1.643, random 27.7% and 1.893. That was changed before these seeds were run; "
    "how masks are learned was not.",
    "Loss and accuracy against other images' masks were one claim, parted when these results "
    "had been seen.",
    "With another seed, the centres of test images spread by 1.1 pixels down and 0.8 across "
    "(standard deviations) near the middle, so that masks of other images can hardly differ. "
    "Masks of 5 pixels at a rate of 5e-3 fell to 0.05 pixels; at 1e-2, with the student at "
    "3e-3 and batches of 32, to 0.6 and 0.4.",
)
SMALL = replace(
    Settings("cifar10"),
    sigma=7.0,
    student=NARROW,
    joint_epochs=4,
    joint_lr=1e-3,
    epochs=8,
    drops=(0.6, 0.85),
)


def masks_recipe(data: str, column: str, *, notes: tuple[str, ...] = ()) -> Recipe:
    """The half of the table for one set of images."""
    name = "commentaries-masks-" + {"cifar10": "cifar"}.get(data, data)
    columns = {"test_accuracy": f"{column} Test Accuracy", "test_loss": f"{column} Test Loss"}
    small = replace(SMALL, data=data)
    few = {"train": 100, "held_out": 100, "tested": 20, "batch": 50}
    tiny = replace(small, **few, joint_epochs=1, epochs=1)
    mini = replace(small, train=3000, held_out=1000, tested=5000, batch=64)
    return Recipe(
        name=name,
        title="Learned masks serve a student better than random ones, or other images' masks.",
        paper="commentaries",
        where=f"Table D.1, {column[:5]}-{column[5:]}",
        arms=ARMS,
        metrics={"test_accuracy": "at the end, %", "test_loss": "at the end, nats"},
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
                "Learned masks do better than random ones, in accuracy and loss.",
                better("random"),
            ),
            Claim(
                "They do better than the same masks on other images, in loss.",
                better("permuted")[1:],
            ),
            Claim("So they do in accuracy.", better("permuted")[:1]),
        ),
        table="Table D.1",
        printed={
            (arm, m): (row, cell) for arm, row in ROWS.items() for m, cell in columns.items()
        },
        plots=(
            Panel("Test images, their learned masks, what is seen", "learned", "masks"),
            Plot(
                "Training loss of new students", "nats", {a: (a, "training loss") for a in ARMS}
            ),
        ),
        prepare=lambda settings: _splits(settings.data),
        notes=(*NOTES, *notes),
    )


def better(other: str) -> tuple[Comparison, ...]:
    """Comparisons of learned masks with another arm, in both numbers of the table."""
    return (
        Comparison(("learned", "test_accuracy"), "above", (other, "test_accuracy")),
        Comparison(("learned", "test_loss"), "below", (other, "test_loss")),
    )


@cache
def _splits(data: str) -> Splits:
    # read once in each process
    return load_known(data)


def _parts(of: Settings, seed: int) -> Parts:
    whole, test = _splits(of.data).train, _splits(of.data).test
    classes = len(whole.classes)
    chosen, others = balanced_rows(whole.labels, of.held_out, classes, seed=mixed_seed(seed, 0))
    left = whole.labels[others]
    kept = others[balanced_rows(left, of.train, classes, seed=mixed_seed(seed, 1))[0]]
    return Parts(whole.rows(kept), whole.rows(chosen), test.rows(torch.arange(of.tested)))


@cache
def _learned(of: Settings, seed: int, device: torch.device) -> Places:
    # once in each process
    parts = _parts(of, seed)
    return places(parts, learned(parts, of, seed, device), of, device)


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one new student under one kind of masks, learned first where they are."""
    parts, drawings = _parts(settings, seed), {}
    match arm:
        case "learned":
            at = _learned(settings, seed, device)
            drawings = {"masks": drawn(parts.test, at.test, settings.sigma)}
        case "permuted":
            at = permuted(_learned(settings, seed, device), seed)
        case "random":
            at = RandomMask(sigma=settings.sigma)
        case "centre":
            at = middle(parts)
        case _:
            at = None
    measured, losses = trained(parts, at, settings, seed, device)
    return Outcome(measured, {"training loss": losses}, drawings)


CIFAR10 = masks_recipe("cifar10", "CIFAR10", notes=FIRST_SEED)
CIFAR100 = masks_recipe("cifar100", "CIFAR100")
