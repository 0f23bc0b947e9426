"""Learned masks beside the same masks on other images, and masks at random places.

Raghu et al. 2021, Table D.1, its half for CIFAR-10. Figures: ``docs/results.md``.
"""

from papers.raghu2021commentaries.masks_table import FIRST_SEED, masks_recipe

RECIPE = masks_recipe("cifar10", "CIFAR10", notes=FIRST_SEED)
