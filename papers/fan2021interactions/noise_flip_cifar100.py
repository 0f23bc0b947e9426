"""Labels of a hundred classes, flipped to two others.

Fan et al. 2021, Table 6, the column of 40% on CIFAR-100. Figures: ``docs/results.md``.
"""

from papers.fan2021interactions.noise_columns import HUNDRED, MANY, Column, column_recipe
from papers.fan2021interactions.reweighting import Settings

RECIPE = column_recipe(
    "interactions-noise-flip-cifar100",
    "Weights from the internal state lower the error with flipped labels of many classes.",
    Column("Table 6", "cifar100", "flip2:0.4", Settings()),
    mini=HUNDRED,
    minutes={"smoke": 0.5, "mini": 6, "gpu": 10, "paper": 215},
    notes=MANY,
)
