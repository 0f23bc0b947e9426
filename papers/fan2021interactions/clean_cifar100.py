"""Right labels, ResNet-32 on CIFAR-100.

Fan et al. 2021, Table 1. Figures: ``docs/results.md``.
"""

from papers.fan2021interactions.clean_table import MANY, Cell, clean_recipe

RECIPE = clean_recipe(
    Cell(
        name="interactions-clean-cifar100",
        row="CIFAR-100 / ResNet-32",
        data="cifar100",
        paper="resnet32",
        gpu="resnet20",
        mini=MANY,
        minutes={"smoke": 0.5, "mini": 20, "gpu": 10, "paper": 500},
    ),
    "At mini scale, 5,000 images, 50 of a class, and 20 epochs of the small network.",
)
