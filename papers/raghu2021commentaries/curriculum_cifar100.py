"""New students of a hundred classes under a curriculum of weights, beside two other arms.

Raghu et al. 2021, section 3.1, Figures 2 and 3, their half for CIFAR-100. Figures:
``docs/results.md``.
"""

from dataclasses import replace

from papers.framework.recipe import Recipe
from papers.raghu2021commentaries import curriculum_cifar as cifar10
from papers.raghu2021commentaries.curriculum_students import (
    ARMS,
    METRICS,
    better_areas,
    plots,
    splits,
    taught,
)

SETTINGS = {
    scale: replace(settings, data="cifar100")
    for scale, settings in cifar10.RECIPE.settings.items()
}
RECIPE = Recipe(
    name="commentaries-curriculum-cifar100",
    title="Under a learned curriculum new students of a hundred classes are ahead.",
    paper="commentaries",
    where="Figures 2 and 3, CIFAR-100",
    arms=ARMS,
    metrics=METRICS,
    settings=SETTINGS | {"smoke": replace(SETTINGS["smoke"], train=100, held_out=100)},
    minutes={"smoke": 0.5, "mini": 7, "gpu": 10, "paper": 360},
    run=taught,
    claims=better_areas(),
    plots=plots(),
    prepare=lambda settings: splits(settings.data),
    notes=(
        "As for CIFAR-10, with the same settings. At mini scale a class has 50 images, and "
        "students end little above chance: the scales to run are gpu and paper.",
    ),
)
