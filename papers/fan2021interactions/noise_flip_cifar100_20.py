"""A fifth of the labels of a hundred classes, flipped to two others.

Fan et al. 2021, Table 6, the column of 20% on CIFAR-100. Figures: ``docs/results.md``.
"""

from papers.fan2021interactions.noise_columns import HUNDRED, MANY, Column, column_recipe
from papers.fan2021interactions.reweighting import Settings

RECIPE = column_recipe(
    "interactions-noise-flip-cifar100-20",
    "Weights from the internal state lower the error with a fifth of many labels flipped.",
    Column("Table 6", "cifar100", "flip2:0.2", Settings()),
    mini=HUNDRED,
    minutes={"smoke": 0.5, "mini": 6, "gpu": 10, "paper": 215},
    notes=MANY,
)
