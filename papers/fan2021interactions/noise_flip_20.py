"""A fifth of the labels flipped to two other classes.

Fan et al. 2021, Table 6, the column of 20% on CIFAR-10. Figures: ``docs/results.md``.
"""

from papers.fan2021interactions.noise_columns import DIGITS, Column, column_recipe
from papers.fan2021interactions.reweighting import Settings

RECIPE = column_recipe(
    "interactions-noise-flip-20",
    "Weights from the internal state lower the error where a fifth of the labels is flipped.",
    Column("Table 6", "cifar10", "flip2:0.2", Settings()),
    mini=DIGITS,
    minutes={"smoke": 0.5, "mini": 4, "gpu": 10, "paper": 215},
    notes=(
        "Settings at mini scale are those of interactions-noise-flip: digits, where the "
        "printed numbers are CIFAR-10's.",
    ),
)
