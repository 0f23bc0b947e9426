"""Places365: the large pictures of its validation set, by category."""

from collections.abc import Collection
from pathlib import Path

import torch

from papers.data.published.layout import found, listed_rows, numbers, read_pictures
from tutelage.errors import UsageError
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.resize import Size

_OF = "Places365"
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
            f"{_OF} has no category {max(wanted, key=abs)}; allowed: 0..{len(names) - 1}."
        )
    folder = found(root, "val_large", of=_OF, get=_PICTURES)
    file = _list(root, "places365_val.txt")
    rows = listed_rows(file, columns=2)
    labels = torch.tensor(numbers([row[1] for row in rows], where=file))
    chosen = torch.tensor([label in wanted for label in labels.tolist()]).nonzero().flatten()
    paths = [folder / rows[row][0] for row in chosen.tolist()]
    images = read_pictures(paths, size, channels=3, where=f"those chosen of {file.name}")
    return ImageSet(images, labels[chosen], chosen, names, _OF)


def _list(root: Path, name: str) -> Path:
    return found(root, name, f"filelist_places365-standard/{name}", of=_OF, get=_LISTS)
