"""Learned masks beside the same masks on other images, and masks at random places.

Raghu et al. 2021, Table D.1. Figures: ``docs/results.md``.
"""

from dataclasses import replace
from functools import cache

import torch

from papers.framework.recipe import Outcome, Panel, Recipe, above, below, better, curves
from papers.raghu2021commentaries.masked_students import (
    Places,
    Settings,
    drawn,
    learned_places,
    masked,
    placed,
)
from papers.students import ImageParts, balanced_parts, splits
from tutelage_cli.claims import Claim

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
                better("learned", "random"),
            ),
            Claim(
                "They do better than the same masks on other images, in loss.",
                below("test_loss", "learned", "permuted"),
            ),
            Claim("So they do in accuracy.", above("test_accuracy", "learned", "permuted")),
        ),
        table="Table D.1",
        printed={
            (arm, m): (row, cell) for arm, row in ROWS.items() for m, cell in columns.items()
        },
        plots=(
            Panel("Test images, their learned masks, what is seen", "learned", "masks"),
            curves("Training loss of new students", "nats", ARMS, "training loss"),
        ),
        prepare=lambda settings: splits(settings.data),
    )


def _parts(settings: Settings, seed: int) -> ImageParts:
    sizes = settings.train, settings.held_out, settings.tested
    return balanced_parts(settings.data, *sizes, seed)


@cache
def _learned(settings: Settings, seed: int, device: torch.device) -> Places:
    # once in each process
    return learned_places(_parts(settings, seed), settings, seed, device)


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one new student under one kind of masks, learned first where they are."""
    parts = _parts(settings, seed)
    learned = Places(*[torch.empty(0)] * 2)
    if arm in ("learned", "permuted"):
        learned = _learned(settings, seed, device)
    masks = placed(arm, parts, learned, settings.sigma, seed)
    outcome = masked(parts, masks, settings, seed, device)
    if arm != "learned":
        return outcome
    drawing = drawn(parts.test, learned.test, settings.sigma)
    return outcome._replace(drawings={"masks": drawing})


CIFAR10 = masks_recipe("cifar10", "CIFAR10")
CIFAR100 = masks_recipe("cifar100", "CIFAR100")
