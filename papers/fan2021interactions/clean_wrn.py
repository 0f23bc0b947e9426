"""Right labels, WRN-28-10 on CIFAR-10.

Fan et al. 2021, Table 1. Figures: ``docs/results.md``.
"""

from papers.fan2021interactions.clean_table import Cell, clean_recipe

RECIPE = clean_recipe(
    Cell(
        name="interactions-clean-wrn",
        row="CIFAR-10 / WRN-28-10",
        data="cifar10",
        paper="wrn-28-10",
        gpu="wrn-16-2",
        mini={"student": "wrn-10-1"},
        minutes={"smoke": 0.5, "mini": 6, "gpu": 10, "paper": 6000},
    ),
    "At mini scale, 1,000 images and 6 epochs of WRN-10-1: too few for such differences.",
)
