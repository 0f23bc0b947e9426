"""Labels drawn anew from all classes.

Fan et al. 2021, Table 5, the column of 40% on CIFAR-10. Figures: ``docs/results.md``.
"""

from papers.fan2021interactions.noise_columns import DIGITS, Column, column_recipe
from papers.fan2021interactions.reweighting import Settings

COLUMN = Column(
    "Table 5",
    "cifar10",
    "uniform:0.4",
    Settings(student="wrn-28-10", epochs=40, decay_at=(36 / 40, 38 / 40)),
)
RECIPE = column_recipe(
    "interactions-noise-uniform",
    "Weights from the internal state lower the error of students with random labels.",
    COLUMN,
    mini=DIGITS,
    minutes={"smoke": 0.5, "mini": 4, "gpu": 10, "paper": 600},
    notes=(
        "The true class is among those drawn: at p = 40%, 36% of the labels are wrong.",
        "Settings at mini scale are those of interactions-noise-flip: digits, where the "
        "printed numbers are CIFAR-10's.",
        "p = 60% and CIFAR-100 are the same with other settings, and not run here.",
    ),
)
