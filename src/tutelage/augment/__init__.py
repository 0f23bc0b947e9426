"""Batched image operations: pure functions of the images and a seed."""

from tutelage.augment.standard import crop_and_flip, random_crop, random_flip

__all__ = ["crop_and_flip", "random_crop", "random_flip"]
