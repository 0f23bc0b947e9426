"""Every recipe by name; its module is imported when it is wanted."""

from importlib import import_module
from typing import TYPE_CHECKING

from tutelage.errors import require_known

if TYPE_CHECKING:
    from papers.framework.recipe import Recipe

__all__ = ["RECIPES", "load_recipe"]

RECIPES = {
    "commentaries-blending-cifar": "papers.raghu2021commentaries.blending_cifar:CIFAR10",
    "commentaries-blending-cifar100": "papers.raghu2021commentaries.blending_cifar:CIFAR100",
    "commentaries-blending-mnist": "papers.raghu2021commentaries.blending_mnist",
    "commentaries-curriculum-cifar": "papers.raghu2021commentaries.curriculum_cifar:CIFAR10",
    "commentaries-curriculum-cifar100": (
        "papers.raghu2021commentaries.curriculum_cifar:CIFAR100"
    ),
    "commentaries-fewshot": "papers.raghu2021commentaries.fewshot",
    "commentaries-masks-backgrounds": "papers.raghu2021commentaries.masks_backgrounds",
    "commentaries-masks-cifar": "papers.raghu2021commentaries.masks_table:CIFAR10",
    "commentaries-masks-cifar100": "papers.raghu2021commentaries.masks_table:CIFAR100",
    "commentaries-masks-coloured-mnist": "papers.raghu2021commentaries.masks_coloured_mnist",
    "commentaries-masks-xray": "papers.raghu2021commentaries.masks_xray",
    "commentaries-rotated-mnist": "papers.raghu2021commentaries.rotated_mnist",
    "commentaries-vectors": "papers.raghu2021commentaries.vectors",
    "gar-overhead": "papers.mueller2021gar.gar_overhead",
    "gar-splits": "papers.mueller2021gar.gar_splits",
    "interactions-agreement": "papers.fan2021interactions.ablations:AGREEMENT",
    "interactions-clean": "papers.fan2021interactions.clean:CIFAR10",
    "interactions-clean-110": "papers.fan2021interactions.clean:CIFAR10_DEEP",
    "interactions-clean-cifar100": "papers.fan2021interactions.clean:CIFAR100",
    "interactions-clean-cifar100-110": "papers.fan2021interactions.clean:CIFAR100_DEEP",
    "interactions-clean-cifar100-wrn": "papers.fan2021interactions.clean:CIFAR100_WIDE",
    "interactions-clean-wrn": "papers.fan2021interactions.clean:CIFAR10_WIDE",
    "interactions-deeper": "papers.fan2021interactions.ablations:DEEPER",
    "interactions-depth": "papers.fan2021interactions.ablations:DEPTH",
    "interactions-features": "papers.fan2021interactions.ablations:SHOWN",
    "interactions-human-noise": "papers.fan2021interactions.ablations:HUMAN_NOISE",
    "interactions-imbalance": "papers.fan2021interactions.ablations:IMBALANCE",
    "interactions-noise-flip": "papers.fan2021interactions.noise:FLIP",
    "interactions-noise-flip-20": "papers.fan2021interactions.noise:FLIP_20",
    "interactions-noise-flip-cifar100": "papers.fan2021interactions.noise:FLIP_CIFAR100",
    "interactions-noise-flip-cifar100-20": "papers.fan2021interactions.noise:FLIP_CIFAR100_20",
    "interactions-noise-uniform": "papers.fan2021interactions.noise:UNIFORM",
    "interactions-schedule": "papers.fan2021interactions.ablations:SCHEDULE",
    "interactions-transfer": "papers.fan2021interactions.transfer",
    "interactions-translation": "papers.fan2021interactions.translation",
    "interactions-weights": "papers.fan2021interactions.weights",
    "mmel-ablation": "papers.yi2021mmel.copies:ABLATION",
    "mmel-cifar": "papers.yi2021mmel.copies:CIFAR10",
    "mmel-cifar-resnet32": "papers.yi2021mmel.copies:CIFAR10_32",
    "mmel-cifar-resnet44": "papers.yi2021mmel.copies:CIFAR10_44",
    "mmel-cifar-resnet56": "papers.yi2021mmel.copies:CIFAR10_56",
    "mmel-cifar100": "papers.yi2021mmel.copies:CIFAR100",
    "mmel-cifar100-resnet32": "papers.yi2021mmel.copies:CIFAR100_32",
    "mmel-cifar100-resnet44": "papers.yi2021mmel.copies:CIFAR100_44",
    "mmel-cifar100-resnet56": "papers.yi2021mmel.copies:CIFAR100_56",
    "mmel-copies": "papers.yi2021mmel.copies:TABLE2",
    "mmel-generation": "papers.yi2021mmel.glue:GENERATED",
    "mmel-glue": "papers.yi2021mmel.glue:WEIGHED",
    "mmel-imagenet": "papers.yi2021mmel.imagenet",
    "mmel-labels": "papers.yi2021mmel.glue:LABELLED",
    "ola-cifar": "papers.mueller2021gar.ola:CIFAR",
    "ola-digits": "papers.mueller2021gar.ola:DIGITS",
    "ola-policy": "papers.mueller2021gar.ola:POLICY",
}
"""the module of each recipe, and its name there if that is not ``RECIPE``"""


def load_recipe(name: str) -> "Recipe":
    """The recipe of that name."""
    require_known("Unknown recipe", name, RECIPES)
    module, _, attribute = RECIPES[name].partition(":")
    return getattr(import_module(module), attribute or "RECIPE")
