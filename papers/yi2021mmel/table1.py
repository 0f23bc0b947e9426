"""Many copies of each image, counting the same or by their losses: two data sets, four ResNets.

Yi et al. 2021, Table 1. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from papers.framework.recipe import Recipe
from papers.yi2021mmel.copied_images import BASELINE, METRICS, Settings, Way, read, trained
from tutelage_cli.claims import Claim, Comparison

WAYS: Mapping[str, Way] = {
    "one": BASELINE,
    "long": Way("uniform", 1, longer=True),
    "uniform": Way("uniform"),
    "hard": Way("hard"),
    "soft": Way("soft"),
}
COLUMNS = {
    "one": "Baseline(DA) acc",
    "long": "Baseline(DA+Long) acc",
    "uniform": "Baseline(DA+UNI) acc",
    "hard": "MMEL-H acc",
    "soft": "MMEL-S acc",
}
SETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
DIGITS = Settings(
    data="mnist", student="cnn", examples=1000, copies=4, flip=False, batch=50, epochs=20
)
"""where a student of a few minutes over-fits"""
NOTES = (
    "Copies are drawn anew whenever an image comes up, and the image as it is stands first "
    "among them; the paper's algorithm 1 draws them once (--set offline=true).",
    "one: an augmented copy of each image in every epoch; long: the same for as many times the "
    "epochs as the others have copies; uniform: all copies count the same.",
    "Momentum SGD is not Nesterov's, which the paper leaves open; lambda_T is 1, which the "
    "paper chose among 0.5, 1 and 2.",
)
SMALL = {
    "mnist": (
        "At mini scale, 1,000 MNIST digits, shifted by up to 4 pixels and not mirrored, 4 "
        "copies, a two-block CNN and 20 epochs of batches of 50, where the printed numbers are "
        "CIFAR's. These settings were chosen by trials with another program, which also saw no "
        "effect on 1,500 images of CIFAR-10 (hard below uniform); mmel-cifar-resnet32 has "
        "4,000 of them.",
        "That hard weights do better than uniform ones is not to be expected of that scale.",
    ),
    "cifar": (
        "At mini scale, 4,000 images, 4 copies, a two-block CNN and 20 epochs of batches of "
        "50: what there is time for in ten minutes. At the learning rate of 0.1 that serves "
        "for digits this network learns next to nothing of such images (29% to 34% of the "
        "training images right, n = 3), whatever its copies; 0.02 was tried in its place, with "
        "seed 100 alone, and not changed since.",
    ),
}
"""what mini scale is, by its images"""


def above(arm: str, *others: str, margin: float = 0.0) -> tuple[Comparison, ...]:
    """One arm's accuracy is above that of others."""
    return tuple(
        Comparison((arm, "accuracy"), "above", (other, "accuracy"), margin=margin)
        for other in others
    )


def table1(data: str, depth: int) -> Recipe:
    """The row of the table for one data set and one ResNet."""
    row = f"{SETS[data]} / ResNet{depth}"
    base = "mmel-" + {"cifar10": "cifar"}.get(data, data)
    paper = Settings(data=data, student=f"resnet{depth}")
    mini = replace(DIGITS, data=data, examples=4000, flip=True, lr=0.02)
    if row == "CIFAR-10 / ResNet20":
        mini = DIGITS
    return Recipe(
        name=base if depth == 20 else f"{base}-resnet{depth}",
        title="Students of many copies of each image do better, most by the worst of them.",
        paper="mmel",
        where=f"Table 1, {row}",
        arms=tuple(WAYS),
        metrics=METRICS,
        settings={
            "smoke": replace(DIGITS, examples=20, tested=20, epochs=1, batch=10),
            "mini": mini,
            "gpu": replace(paper, copies=5, epochs=30),
            "paper": paper,
        },
        minutes={"smoke": 0.2, "mini": 10, "gpu": 10, "paper": 45 * depth},
        run=partial(trained, WAYS),
        claims=(
            Claim(
                "Copies weighed by their losses, hard or soft, do better than one copy.",
                above("hard", "one") + above("soft", "one"),
            ),
            Claim("So do copies that count the same.", above("uniform", "one")),
            Claim(
                "Hard weights do better than the same copies counting the same.",
                above("hard", "uniform"),
            ),
            Claim(
                "Hard weights are not worse than those by more than half a point.",
                above("hard", "uniform", margin=-0.5),
                of_paper=False,
            ),
        ),
        table="Table 1",
        printed={(arm, "accuracy"): (row, column) for arm, column in COLUMNS.items()},
        prepare=read,
        notes=NOTES + SMALL["mnist" if mini == DIGITS else "cifar"],
    )


CIFAR10, CIFAR10_32, CIFAR10_44, CIFAR10_56 = (table1("cifar10", n) for n in (20, 32, 44, 56))
CIFAR100, CIFAR100_32, CIFAR100_44, CIFAR100_56 = (
    table1("cifar100", n) for n in (20, 32, 44, 56)
)
