"""Batched image operations and policies: pure functions of the images and a seed."""

from tutelage.augment.actions import Actions
from tutelage.augment.layer import StandardAugmentation
from tutelage.augment.operations import OPERATIONS, apply_operations
from tutelage.augment.policies import (
    AutoAugment,
    Policy,
    RandAugment,
    TrivialAugment,
    UniformAugment,
)
from tutelage.augment.spaces import SPACES, Space, Strength, space_named
from tutelage.augment.standard import crop_and_flip, cutout, random_crop, random_flip

__all__ = [
    "OPERATIONS",
    "SPACES",
    "Actions",
    "AutoAugment",
    "Policy",
    "RandAugment",
    "Space",
    "StandardAugmentation",
    "Strength",
    "TrivialAugment",
    "UniformAugment",
    "apply_operations",
    "crop_and_flip",
    "cutout",
    "random_crop",
    "random_flip",
    "space_named",
]
