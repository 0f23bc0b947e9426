"""Many copies of each image and ResNet-32, counting the same or by their losses.

Yi et al. 2021, Table 1, its row for ResNet-32 on CIFAR-100. Figures: ``docs/results.md``.
"""

from papers.yi2021mmel.table1 import table1

RECIPE = table1("cifar100", 32)
