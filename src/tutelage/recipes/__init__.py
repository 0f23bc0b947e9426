"""Recipes: one file for each table or figure of a paper, which names parts and calls a loop."""

from importlib import import_module
from typing import TYPE_CHECKING

from tutelage.reproduction.asked import check_word

if TYPE_CHECKING:
    from tutelage.reproduction.recipe import Recipe

__all__ = ["RECIPES", "load_recipe"]

RECIPES = {
    "commentaries-blending-cifar": "tutelage.recipes.commentaries_blending_cifar",
    "commentaries-blending-cifar100": "tutelage.recipes.commentaries_blending_cifar100",
    "commentaries-blending-mnist": "tutelage.recipes.commentaries_blending_mnist",
    "commentaries-curriculum-cifar": "tutelage.recipes.commentaries_curriculum_cifar",
    "commentaries-curriculum-cifar100": "tutelage.recipes.commentaries_curriculum_cifar100",
    "commentaries-fewshot": "tutelage.recipes.commentaries_fewshot",
    "commentaries-masks-backgrounds": "tutelage.recipes.commentaries_masks_backgrounds",
    "commentaries-masks-cifar": "tutelage.recipes.commentaries_masks_cifar",
    "commentaries-masks-cifar100": "tutelage.recipes.commentaries_masks_cifar100",
    "commentaries-masks-coloured-mnist": "tutelage.recipes.commentaries_masks_coloured_mnist",
    "commentaries-masks-xray": "tutelage.recipes.commentaries_masks_xray",
    "commentaries-rotated-mnist": "tutelage.recipes.commentaries_rotated_mnist",
    "commentaries-vectors": "tutelage.recipes.commentaries_vectors",
    "gar-overhead": "tutelage.recipes.gar_overhead",
    "gar-splits": "tutelage.recipes.gar_splits",
    "interactions-clean": "tutelage.recipes.interactions_clean",
    "interactions-clean-110": "tutelage.recipes.interactions_clean_110",
    "interactions-clean-cifar100": "tutelage.recipes.interactions_clean_cifar100",
    "interactions-clean-cifar100-110": "tutelage.recipes.interactions_clean_cifar100_110",
    "interactions-clean-cifar100-wrn": "tutelage.recipes.interactions_clean_cifar100_wrn",
    "interactions-clean-wrn": "tutelage.recipes.interactions_clean_wrn",
    "interactions-deeper": "tutelage.recipes.interactions_deeper",
    "interactions-depth": "tutelage.recipes.interactions_depth",
    "interactions-features": "tutelage.recipes.interactions_features",
    "interactions-human-noise": "tutelage.recipes.interactions_human_noise",
    "interactions-imbalance": "tutelage.recipes.interactions_imbalance",
    "interactions-noise-flip": "tutelage.recipes.interactions_noise_flip",
    "interactions-noise-flip-20": "tutelage.recipes.interactions_noise_flip_20",
    "interactions-noise-flip-cifar100": "tutelage.recipes.interactions_noise_flip_cifar100",
    "interactions-noise-flip-cifar100-20": (
        "tutelage.recipes.interactions_noise_flip_cifar100_20"
    ),
    "interactions-noise-uniform": "tutelage.recipes.interactions_noise_uniform",
    "interactions-schedule": "tutelage.recipes.interactions_schedule",
    "interactions-transfer": "tutelage.recipes.interactions_transfer",
    "interactions-translation": "tutelage.recipes.interactions_translation",
    "interactions-weights": "tutelage.recipes.interactions_weights",
    "mmel-cifar": "tutelage.recipes.mmel_cifar",
    "mmel-cifar-resnet32": "tutelage.recipes.mmel_cifar_resnet32",
    "mmel-cifar-resnet44": "tutelage.recipes.mmel_cifar_resnet44",
    "mmel-cifar-resnet56": "tutelage.recipes.mmel_cifar_resnet56",
    "mmel-cifar100": "tutelage.recipes.mmel_cifar100",
    "mmel-cifar100-resnet32": "tutelage.recipes.mmel_cifar100_resnet32",
    "mmel-cifar100-resnet44": "tutelage.recipes.mmel_cifar100_resnet44",
    "mmel-cifar100-resnet56": "tutelage.recipes.mmel_cifar100_resnet56",
    "mmel-copies": "tutelage.recipes.mmel_copies",
    "mmel-generation": "tutelage.recipes.mmel_generation",
    "mmel-glue": "tutelage.recipes.mmel_glue",
    "mmel-imagenet": "tutelage.recipes.mmel_imagenet",
    "mmel-labels": "tutelage.recipes.mmel_labels",
    "ola-cifar": "tutelage.recipes.ola_cifar",
    "ola-digits": "tutelage.recipes.ola_digits",
    "ola-policy": "tutelage.recipes.ola_policy",
}
"""the module of each recipe by name; its ``RECIPE`` is imported when it is wanted"""


def load_recipe(name: str) -> "Recipe":
    """The recipe of that name.

    Args:
        name: One of ``RECIPES``; another is refused by ``check_word``.

    Returns:
        The record that its module makes.
    """
    check_word("recipe", name, RECIPES)
    return import_module(RECIPES[name]).RECIPE
