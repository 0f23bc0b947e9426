"""Birds on places: the place gives the species away, and misleads in the test."""

from collections.abc import Collection
from pathlib import Path

import torch

from papers.data.published.cub import read_cub
from papers.data.published.layout import found, listed_rows, numbers, read_pictures
from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage_cli.data.images import ImageSet, ThreeParts
from tutelage_cli.data.resize import Size
from tutelage_cli.data.synthetic.compositing import drawn_mapping
from tutelage_cli.data.synthetic.named import Pools, shifted_backgrounds

_NAME = "Places365"
_LISTS = (
    "unpack filelist_places365-standard.tar, of the project's download page, beside val_large"
)
_PICTURES = "unpack val_large.tar, of the project's download page, there"


def place_categories(root: Path) -> tuple[str, ...]:
    """The names of all categories, such as ``airfield`` or ``forest/broadleaf``."""
    file = _list(root, "categories_places365.txt")
    rows = listed_rows(file, columns=2)
    if numbers([row[1] for row in rows], where=file) != list(range(len(rows))):
        raise UsageError(
            f"{file} does not number its categories 0, 1, 2, ... in turn; unpack it again."
        )
    # "/a/airfield": the letter is a folder of the training set.
    return tuple(name.split("/", 2)[-1] for name, _ in rows)


def read_places(root: Path, size: Size, *, categories: Collection[int] | None) -> ImageSet:
    """The pictures of ``val_large``, 100 of each category, in the order of the list."""
    names = place_categories(root)
    wanted = set(range(len(names)) if categories is None else categories)
    if not wanted <= set(range(len(names))):
        raise UsageError(
            f"{_NAME} has no category {max(wanted, key=abs)}; allowed: 0..{len(names) - 1}."
        )
    folder = found(root, "val_large", dataset=_NAME, hint=_PICTURES)
    file = _list(root, "places365_val.txt")
    rows = listed_rows(file, columns=2)
    labels = torch.tensor(numbers([row[1] for row in rows], where=file))
    chosen = torch.tensor([label in wanted for label in labels.tolist()]).nonzero().flatten()
    paths = [folder / rows[row][0] for row in chosen.tolist()]
    images = read_pictures(paths, size, channels=3, where=f"those chosen of {file.name}")
    return ImageSet(images, labels[chosen], chosen, names, _NAME)


def _list(root: Path, name: str) -> Path:
    return found(root, name, f"filelist_places365-standard/{name}", dataset=_NAME, hint=_LISTS)


HELD_OUT = 0.2  # share of the official training images
_CUT = 1  # first part of a seed: keeps the streams of random numbers apart


def birds_on_places(
    cub: Path, places: Path, size: Size, *, pictures: int, seed: int
) -> ThreeParts:
    """Every bird, cut out by its segmentation, on a picture of its species' place.

    A category of places is drawn for each species; at the test, the mapping is rolled by one.
    The pictures behind the birds of the test are others than those behind all other birds.

    Source: Raghu et al., 2021, "Teaching with Commentaries", section 5.2 and table 3; Koh et
        al., 2020, "Concept Bottleneck Models", and the generator in its code.
    """
    birds = read_cub(cub, size, held_out=HELD_OUT, seed=seed)
    classes, categories = len(birds.train.images.classes), len(place_categories(places))
    mapping = drawn_mapping(classes, categories, seed=seed)
    behind = read_places(places, size, categories=mapping.tolist())
    fewest = int(torch.bincount(behind.labels, minlength=categories)[mapping].min())
    if not 1 <= pictures <= fewest // 2:
        raise UsageError(
            f"{pictures} pictures of each category cannot be taken twice from {places}, where "
            f"the rarest one needed has {fewest}; allowed: 1..{fewest // 2}."
        )
    backgrounds = _two_sets(behind, pictures, mixed_seed(_CUT, seed))
    return shifted_backgrounds(birds, backgrounds, mapping_seed=seed, seed=seed)


def _two_sets(behind: ImageSet, pictures: int, seed: int) -> Pools:
    # Of each category, some pictures for the training split and as many others for the test.
    order = torch.randperm(len(behind), generator=torch.Generator().manual_seed(seed))
    order = order[behind.labels[order].argsort(stable=True)]
    counts = torch.bincount(behind.labels, minlength=len(behind.classes))
    starts = counts.cumsum(0) - counts
    place = (torch.arange(len(order)) - starts[behind.labels[order]]) // pictures
    learned, tested = (behind.rows(order[place == part]) for part in (0, 1))
    return Pools(learned, learned, tested)
