"""Learned masks beside the same masks on other images, and masks at random places.

Raghu et al. 2021, Table D.1, its half for CIFAR-100. Figures: ``docs/results.md``.
"""

from papers.raghu2021commentaries.masks_table import masks_recipe

RECIPE = masks_recipe("cifar100", "CIFAR100")
