"""Small made-up sets of images, for tests of what is made from them."""

import torch

from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits


def images(count=60, classes=10, channels=1, side=8, seed=0, name="toys"):
    """Random pixels; labels in turn, ids from 100."""
    draws = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (count, channels, side, side), generator=draws)
    rows = torch.arange(count)
    names = tuple(str(number) for number in range(classes))
    return ImageSet(pixels.to(torch.uint8), rows % classes, rows + 100, names, name)


def splits(train=60, test=40, **options):
    return Splits(images(train, **options), images(test, **{"seed": 1, **options}))
