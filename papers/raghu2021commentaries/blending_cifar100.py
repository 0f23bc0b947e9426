"""Learned blending of a hundred classes beside none, a random one, mixup, and itself shuffled.

Raghu et al. 2021, Tables 2 and C.1, their half for CIFAR-100. Figures: ``docs/results.md``.
"""

import torch

from papers.framework.recipe import Outcome, Plot, Recipe
from papers.raghu2021commentaries.blended_students import METRICS, blended, cells, lower_loss
from papers.raghu2021commentaries.blending_grids import ARMS, Settings, splits
from tutelage_cli.claims import Claim, Comparison

BASELINES = {
    "none": "no blending",
    "random": "a random grid",
    "mixup": "mixup",
    "shuffled": "its own grid shuffled",
}


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one new student on blended images; learned blending is learned first."""
    return blended(arm, seed, settings, device)[0]


def _better(than: str) -> tuple[Comparison, ...]:
    higher = Comparison(("learned", "test_accuracy"), "above", (than, "test_accuracy"))
    return lower_loss(than), higher


RECIPE = Recipe(
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
        Claim(f"Learned blending does better than {name}, in accuracy and loss.", _better(arm))
        for arm, name in BASELINES.items()
    ),
    table="Table C.1",
    printed=cells("CIFAR100"),
    plots=(
        Plot("Training loss of new students", "nats", {a: (a, "training loss") for a in ARMS}),
        Plot(
            "Mean blending fraction while it is learned",
            "fraction",
            {"learned": ("learned", "fraction")},
        ),
    ),
    prepare=lambda settings: splits(settings.data),
    notes=(
        "As for CIFAR-10: a grid for every seed, classes in balance, the hypergradient on the "
        "batch of the step just made; at mini and gpu scale the same sizes, without a claim on "
        "which classes are blended. At mini scale a class has 20 images.",
    ),
)
