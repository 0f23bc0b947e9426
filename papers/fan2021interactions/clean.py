"""Right labels, ResNet-32 on CIFAR-10.

Fan et al. 2021, Table 1. Figures: ``docs/results.md``.
"""

from papers.fan2021interactions.clean_table import SMALL, Cell, clean_recipe

RECIPE = clean_recipe(
    Cell(
        name="interactions-clean",
        row="CIFAR-10 / ResNet-32",
        data="cifar10",
        paper="resnet32",
        gpu="resnet20",
        mini=SMALL,
        minutes={"smoke": 0.5, "mini": 8, "gpu": 10, "paper": 500},
    ),
    "At mini scale, 2,000 images and 20 epochs of the small network without augmentation.",
)
