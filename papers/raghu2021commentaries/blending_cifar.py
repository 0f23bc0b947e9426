"""Learned blending of classes beside none, a random one, mixup, and the same grid shuffled.

Raghu et al. 2021, Tables 2 and C.1 and Figures 5 and C.1. Figures: ``docs/results.md``.
"""

import torch
from torch import Tensor

from papers.framework.recipe import Outcome, Panel, Recipe, above, below, curves
from papers.raghu2021commentaries.blending_grids import ARMS, METRICS, Settings, blended, cells
from papers.students import splits
from tutelage_cli.claims import Claim, Comparison

PAIRS = {"cat_dog": ("cat", "dog"), "truck_automobile": ("truck", "automobile")}


def excess(grid: Tensor, pair: tuple[int, int]) -> float:
    """How much more two classes are blended with one another than with others."""
    rows = (grid.sum(1) - grid.diagonal()) / (len(grid) - 1)
    return sum(float(grid[i, j] - rows[i]) for i, j in (pair, pair[::-1])) / 2


def run_cifar10(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one new student, and see which classes are blended most."""
    outcome, grid = blended(arm, seed, settings, device)
    place = splits(settings.data).train.classes.index
    found = {m: excess(grid, (place(a), place(b))) for m, (a, b) in PAIRS.items()}
    return outcome._replace(metrics={**outcome.metrics, **found})


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one new student on blended images; learned blending is learned first."""
    return blended(arm, seed, settings, device)[0]


LOSSES = curves("Training loss of new students", "nats", ARMS, "training loss")
FRACTION = curves(
    "Mean blending fraction while it is learned", "fraction", ["learned"], "fraction"
)
HELD_OUT = curves(
    "Held-out loss of the student that learns along", "nats", ["learned"], "held-out loss"
)


CIFAR10 = Recipe(
    name="commentaries-blending-cifar",
    title="Students under a learned blending of classes have a lower test loss.",
    paper="commentaries",
    where="Tables 2 and C.1, Figures 5 and C.1, CIFAR-10",
    arms=ARMS,
    metrics=METRICS
    | {
        m: f"fraction of {a} with {b} and back, less the mean of their rows; 0 if all are alike"
        for m, (a, b) in PAIRS.items()
    },
    settings={
        "smoke": Settings("cifar10", "cnn", 40, 40, 40, 20, 20, 1, 1e-3, 1e-2, 1, 0.1, False),
        "mini": Settings(
            "cifar10", "cnn", 2000, 4000, 4000, 64, 64, 30, 1e-3, 1e-2, 45, 0.02, False
        ),
        "gpu": Settings(train=20_000, joint_epochs=6, epochs=12),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 8, "gpu": 6, "paper": 130},
    run=run_cifar10,
    claims=(
        Claim(
            "Learned blending gives a lower test loss than no blending.",
            below("test_loss", "learned", "none"),
        ),
        Claim(
            "It gives a lower one than a random grid.", below("test_loss", "learned", "random")
        ),
        Claim(
            "It gives a lower one than its own grid shuffled.",
            below("test_loss", "learned", "shuffled"),
        ),
        Claim(
            "Classes that look alike, cat and dog, truck and automobile, are blended with one "
            "another more than with others.",
            tuple(Comparison(("learned", metric), "above", 0.0) for metric in PAIRS),
        ),
    ),
    table="Table C.1",
    printed=cells("CIFAR10"),
    plots=(Panel("Learned fractions of seed 0", "learned", "grid"), LOSSES, FRACTION, HELD_OUT),
    prepare=lambda settings: splits(settings.data),
    notes=(
        "Every seed learns its own grid, shuffles it and draws a random one anew; the paper "
        "trains three students under one grid.",
        "Training and held-out images are balanced over classes: else the grid mostly learns "
        "how their mix of classes differs. The hypergradient is taken on the batch of the step "
        "just made, in the paper's code on another one.",
        "At mini scale a small CNN learns for 45 epochs from 2000 images that are not "
        "cropped or mirrored, so that without blending it over-fits, and the grid is learned "
        "in 30 epochs of them. At gpu scale there are 20,000 images, 6 epochs and 12.",
        "The rate of 0.02 at mini scale was chosen in trials with another seed: at 0.1, with "
        "4000 images, students do not fit them, and none had a lower loss than random.",
        "Looked at after the results: the grids of the three seeds agree, their entries "
        "correlate by 0.36 to 0.45, and most of that is the partner: truck, automobile and "
        "horse are blended most into others, cat and deer least. Less the means of row and "
        "column, cat with dog stands out in every seed, by 0.02 to 0.04, and truck with "
        "automobile in none.",
    ),
)

BASELINES = {
    "none": "no blending",
    "random": "a random grid",
    "mixup": "mixup",
    "shuffled": "its own grid shuffled",
}
CIFAR100 = Recipe(
    name="commentaries-blending-cifar100",
    title="Students under a learned blending of a hundred classes do best, in both numbers.",
    paper="commentaries",
    where="Tables 2 and C.1, CIFAR-100",
    arms=ARMS,
    metrics=METRICS,
    settings={
        "smoke": Settings(
            "cifar100", "cnn", 100, 100, 40, 50, 50, 1, 1e-3, 1e-2, 1, 0.1, False
        ),
        "mini": Settings(
            "cifar100", "cnn", 2000, 4000, 4000, 64, 64, 30, 1e-3, 1e-2, 45, 0.02, False
        ),
        "gpu": Settings("cifar100", train=20_000, joint_epochs=6, epochs=12),
        "paper": Settings("cifar100"),
    },
    minutes={"smoke": 0.5, "mini": 8, "gpu": 6, "paper": 130},
    run=run,
    claims=tuple(
        Claim(
            f"Learned blending does better than {name}, in accuracy and loss.",
            below("test_loss", "learned", arm) + above("test_accuracy", "learned", arm),
        )
        for arm, name in BASELINES.items()
    ),
    table="Table C.1",
    printed=cells("CIFAR100"),
    plots=(LOSSES, FRACTION),
    prepare=lambda settings: splits(settings.data),
    notes=(
        "As for CIFAR-10: a grid for every seed, classes in balance, the hypergradient on the "
        "batch of the step just made; at mini and gpu scale the same sizes, without a claim on "
        "which classes are blended. At mini scale a class has 20 images.",
    ),
)
