"""Every recipe by name; its module is imported when it is wanted."""

from importlib import import_module
from typing import TYPE_CHECKING

from papers.framework.args import check_word

if TYPE_CHECKING:
    from papers.framework.recipe import Recipe

__all__ = ["RECIPES", "load_recipe"]

RECIPES = {
    "commentaries-blending-cifar": "raghu2021commentaries.blending_cifar:CIFAR10",
    "commentaries-blending-cifar100": "raghu2021commentaries.blending_cifar:CIFAR100",
    "commentaries-blending-mnist": "raghu2021commentaries.blending_mnist",
    "commentaries-curriculum-cifar": "raghu2021commentaries.curriculum_cifar:CIFAR10",
    "commentaries-curriculum-cifar100": "raghu2021commentaries.curriculum_cifar:CIFAR100",
    "commentaries-fewshot": "raghu2021commentaries.fewshot",
    "commentaries-masks-backgrounds": "raghu2021commentaries.masks_backgrounds",
    "commentaries-masks-cifar": "raghu2021commentaries.masks_table:CIFAR10",
    "commentaries-masks-cifar100": "raghu2021commentaries.masks_table:CIFAR100",
    "commentaries-masks-coloured-mnist": "raghu2021commentaries.masks_coloured_mnist",
    "commentaries-masks-xray": "raghu2021commentaries.masks_xray",
    "commentaries-rotated-mnist": "raghu2021commentaries.rotated_mnist",
    "commentaries-vectors": "raghu2021commentaries.vectors",
    "gar-overhead": "mueller2021gar.gar_overhead",
    "gar-splits": "mueller2021gar.gar_splits",
    "interactions-clean": "fan2021interactions.clean:CIFAR10",
    "interactions-clean-110": "fan2021interactions.clean:CIFAR10_DEEP",
    "interactions-clean-cifar100": "fan2021interactions.clean:CIFAR100",
    "interactions-clean-cifar100-110": "fan2021interactions.clean:CIFAR100_DEEP",
    "interactions-clean-cifar100-wrn": "fan2021interactions.clean:CIFAR100_WIDE",
    "interactions-clean-wrn": "fan2021interactions.clean:CIFAR10_WIDE",
    "interactions-deeper": "fan2021interactions.ablations:DEEPER",
    "interactions-depth": "fan2021interactions.ablations:DEPTH",
    "interactions-features": "fan2021interactions.ablations:SHOWN",
    "interactions-human-noise": "fan2021interactions.ablations:HUMAN_NOISE",
    "interactions-imbalance": "fan2021interactions.ablations:IMBALANCE",
    "interactions-noise-flip": "fan2021interactions.noise:FLIP",
    "interactions-noise-flip-20": "fan2021interactions.noise:FLIP_20",
    "interactions-noise-flip-cifar100": "fan2021interactions.noise:FLIP_CIFAR100",
    "interactions-noise-flip-cifar100-20": "fan2021interactions.noise:FLIP_CIFAR100_20",
    "interactions-noise-uniform": "fan2021interactions.noise:UNIFORM",
    "interactions-schedule": "fan2021interactions.ablations:SCHEDULE",
    "interactions-transfer": "fan2021interactions.transfer",
    "interactions-translation": "fan2021interactions.translation",
    "interactions-weights": "fan2021interactions.weights",
    "mmel-cifar": "yi2021mmel.copies:CIFAR10",
    "mmel-cifar-resnet32": "yi2021mmel.copies:CIFAR10_32",
    "mmel-cifar-resnet44": "yi2021mmel.copies:CIFAR10_44",
    "mmel-cifar-resnet56": "yi2021mmel.copies:CIFAR10_56",
    "mmel-cifar100": "yi2021mmel.copies:CIFAR100",
    "mmel-cifar100-resnet32": "yi2021mmel.copies:CIFAR100_32",
    "mmel-cifar100-resnet44": "yi2021mmel.copies:CIFAR100_44",
    "mmel-cifar100-resnet56": "yi2021mmel.copies:CIFAR100_56",
    "mmel-copies": "yi2021mmel.copies:TABLE2",
    "mmel-generation": "yi2021mmel.glue:GENERATED",
    "mmel-glue": "yi2021mmel.glue:WEIGHED",
    "mmel-imagenet": "yi2021mmel.imagenet",
    "mmel-labels": "yi2021mmel.glue:LABELLED",
    "ola-cifar": "mueller2021gar.ola_cifar",
    "ola-digits": "mueller2021gar.ola_digits",
    "ola-policy": "mueller2021gar.ola_policy",
}
"""the module of each recipe below ``papers``, and its name there if not ``RECIPE``"""


def load_recipe(name: str) -> "Recipe":
    """The recipe of that name."""
    check_word("recipe", name, RECIPES)
    module, _, attribute = RECIPES[name].partition(":")
    return getattr(import_module(f"papers.{module}"), attribute or "RECIPE")
