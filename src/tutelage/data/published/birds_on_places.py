"""Birds on places: the place gives the species away, and misleads in the test."""

from pathlib import Path

import torch

from tutelage.data.described import ThreeParts
from tutelage.data.images import ImageSet
from tutelage.data.published.cub import read_cub
from tutelage.data.published.places import place_categories, read_places
from tutelage.data.resize import Size
from tutelage.data.synthetic.compositing import drawn_mapping
from tutelage.data.synthetic.pools import Pools
from tutelage.data.synthetic.shifted import shifted_backgrounds
from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed

HELD_OUT = 0.2
"""share of the official training images"""
_CUT = 1
"""first part of a seed: keeps the streams of random numbers apart"""


def birds_on_places(
    cub: Path, places: Path, size: Size, *, mapping_seed: int, seed: int
) -> ThreeParts:
    """Every bird, cut out by its segmentation, on a picture of its species' place.

    A category of places is drawn for each species; at the test, the mapping is rolled by one.
    The pictures of a category are divided among the three parts, so that no part shows a
    background of another (a choice of this library).

    Args:
        cub: See :func:`tutelage.data.published.cub.read_cub`.
        places: See :func:`tutelage.data.published.places.read_places`.
        size: Of an image; the paper takes 224x224.
        mapping_seed: Of the mapping; the published set takes 42.
        seed: Of the held-out fifth and of which picture lies behind which bird.

    Returns:
        RGB images with the facts ``mask``, ``box``, ``background`` and ``background_id``.

    Raises:
        UsageError: If a category that is needed has fewer than three pictures.

    Source: Raghu et al., 2021, "Teaching with Commentaries", section 5.2 and table 3; Koh et
        al., 2020, "Concept Bottleneck Models".
    """
    birds = read_cub(cub, size, held_out=HELD_OUT, seed=seed)
    classes, categories = len(birds.train.images.classes), len(place_categories(places))
    mapping = drawn_mapping(classes, categories, seed=mapping_seed)
    pictures = read_places(places, size, categories=mapping.tolist())
    counts = torch.bincount(pictures.labels, minlength=categories)[mapping]
    if int(counts.min()) < 3:
        name = pictures.classes[int(mapping[counts.argmin()])]
        raise UsageError(
            f"{places} has {int(counts.min())} pictures of category '{name}'; allowed: 3 and "
            "above, one for each part. Unpack val_large.tar again."
        )
    backgrounds = _thirds(pictures, mixed_seed(_CUT, seed))
    return shifted_backgrounds(birds, backgrounds, mapping_seed=mapping_seed, seed=seed)


def _thirds(pictures: ImageSet, seed: int) -> Pools:
    # Every third picture of a category, in random order.
    order = torch.randperm(len(pictures), generator=torch.Generator().manual_seed(seed))
    order = order[pictures.labels[order].argsort(stable=True)]
    counts = torch.bincount(pictures.labels, minlength=len(pictures.classes))
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(order)) - starts[pictures.labels[order]]
    return Pools(*(pictures.rows(order[place % 3 == part]) for part in range(3)))
