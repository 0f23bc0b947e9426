"""Right labels, ResNet-110 on CIFAR-100.

Fan et al. 2021, Table 1. Figures: ``docs/results.md``.
"""

from papers.fan2021interactions.clean_table import Cell, clean_recipe

RECIPE = clean_recipe(
    Cell(
        name="interactions-clean-cifar100-110",
        row="CIFAR-100 / ResNet-110",
        data="cifar100",
        paper="resnet110",
        gpu="resnet32",
        mini={"student": "resnet20"},
        minutes={"smoke": 0.5, "mini": 15, "gpu": 10, "paper": 1500},
    ),
    "At mini scale, 1,000 images and 6 epochs of ResNet-20: too few for such differences.",
)
