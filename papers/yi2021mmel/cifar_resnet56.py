"""Many copies of each image and ResNet-56, counting the same or by their losses.

Yi et al. 2021, Table 1, its row for ResNet-56 on CIFAR-10. Figures: ``docs/results.md``.
"""

from papers.yi2021mmel.table1 import table1

RECIPE = table1("cifar10", 56)
