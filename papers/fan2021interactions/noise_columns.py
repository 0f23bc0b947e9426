"""A column of Table 5 or 6 of Fan et al. 2021 as a recipe: one kind of wrong labels."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from papers.fan2021interactions.reweighting import PLAIN, Settings, Way, ready
from papers.fan2021interactions.reweighting_ways import (
    MENTOR_NET,
    META_WEIGHT_NET,
    interactions,
    margin_loss,
)
from papers.fan2021interactions.tables import BEST, METRICS, below, measured
from papers.framework.recipe import Plot, Recipe
from tutelage_cli.claims import Claim

WAYS: Mapping[str, Way] = {
    "plain": PLAIN,
    "interactions": interactions(),
    "margin-loss": margin_loss("centred"),
    "meta-weight-net": META_WEIGHT_NET,
    "mentornet": MENTOR_NET,
}
ROWS = {
    "plain": "Baseline",
    "interactions": "Ours",
    "meta-weight-net": "Meta-Weight-Net",
    "mentornet": "MentorNet",
}
"""what the paper calls the arms that it has"""
THREE_ERRORS = (
    "chosen_error is of the epoch that is best on held-out images; best_error of the one that "
    "is best on the test images themselves, and so lower than it can be trusted to be. The "
    "paper does not say which of them its tables of wrong labels print; the code of "
    "Meta-Weight-Net, from which it seems to quote three rows, tells the best. All are of the "
    "same test images."
)
DIGITS = Settings(
    data="mnist5k",
    student="cnn",
    held_out=500,
    augment="none",
    epochs=12,
    teacher_lr=0.02,
    every=5,
)
"""the settings of ``tutelage train``"""
HUNDRED = replace(DIGITS, data="cifar100", examples=5000, epochs=20)
"""for a hundred classes at mini scale"""
MANY = (
    "At mini scale, 5,000 images, 50 of a class, and 20 epochs of the small network without "
    "augmentation: too few for a hundred classes. The scales to run are gpu and paper.",
)
"""what is to be said of these settings"""
SMOKE = replace(DIGITS, examples=40, held_out=20, tested=20, batch=20, epochs=1, every=2)
GPU = Settings(student="resnet20", examples=9000, epochs=20, every=5, teacher_lr=0.02)


@dataclass(frozen=True)
class Column:
    """Where a recipe's numbers are printed, and how its labels go wrong."""

    table: str
    data: str
    """cifar10 or cifar100"""
    noise: str
    """a kind, with a colon between it and the rate"""
    paper: Settings
    """the table's network and schedule"""

    @property
    def where(self) -> str:
        """The column in words."""
        return f"{self.table}, {self.images}, {self.rate}"

    @property
    def rate(self) -> str:
        """The rate as the table prints it."""
        return f"p={float(self.noise.partition(':')[2]):.0%}"

    @property
    def images(self) -> str:
        """The set as the table prints it."""
        return self.data.upper().replace("CIFAR", "CIFAR-")

    def cells(self) -> dict[tuple[str, str], tuple[str, str]]:
        """The paper's numbers."""
        return {
            (arm, "error"): (f"{self.images} / {row}", self.rate) for arm, row in ROWS.items()
        }

    def settings(self, mini: Settings) -> dict[str, Settings]:
        """The four scales."""
        scales = {
            "smoke": SMOKE,
            "mini": mini,
            "gpu": replace(GPU, data=self.data),
            "paper": replace(self.paper, data=self.data),
        }
        return {name: replace(of, noise=self.noise) for name, of in scales.items()}


def column_recipe(
    name: str,
    title: str,
    column: Column,
    *,
    mini: Settings,
    minutes: Mapping[str, float],
    notes: tuple[str, ...],
) -> Recipe:
    """The recipe of a column: the paper's four rows, and the teacher of margin and loss."""
    return Recipe(
        name=name,
        title=title,
        paper="l2tdi",
        where=column.where,
        arms=tuple(WAYS),
        metrics=METRICS | BEST,
        settings=column.settings(mini),
        minutes=minutes,
        run=partial(measured, WAYS, metrics=METRICS | BEST),
        claims=(
            Claim(
                "The paper's teacher lowers the error of plain training.",
                below("interactions", "plain"),
            ),
            Claim(
                "So does one of margin and loss.", below("margin-loss", "plain"), of_paper=False
            ),
        ),
        table=column.table,
        printed=column.cells(),
        plots=(Plot("Test error", "%", {arm: (arm, "test error") for arm in WAYS}),),
        prepare=partial(ready, WAYS),
        notes=(*notes, THREE_ERRORS),
    )
