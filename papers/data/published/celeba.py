"""CelebA: aligned faces with forty attributes."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from papers.data.published.layout import found, listed_rows, numbers, read_pictures
from tutelage.errors import UsageError, require_known
from tutelage_cli.data.images import Described, ImageSet, ThreeParts
from tutelage_cli.data.resize import Size

_NAME = "CelebA"
_LISTS = "put list_attr_celeba.txt (of Anno) and list_eval_partition.txt (of Eval) there"
_PICTURES = "unpack img_align_celeba.zip (of Img) there"


def attribute_names(root: Path) -> tuple[str, ...]:
    """The names of the attributes, such as ``Blond_Hair``."""
    return _attributes(root)[0]


def read_celeba(root: Path, attribute: str, size: Size, *, most: int | None) -> ThreeParts:
    """Faces in the official three parts, labelled by one attribute and described by all.

    Source: Liu et al., 2015, "Deep Learning Face Attributes in the Wild"; Raghu et al., 2021,
        "Teaching with Commentaries", appendix A.
    """
    names, files, attributes = _attributes(root)
    require_known(f"{_NAME} has no attribute", attribute, names)
    if most is not None and most < 1:
        raise UsageError(f"{most} images of each part are too few; allowed: 1 and above.")
    parts = _partition(root, files)
    folder = found(
        root, "img_align_celeba", "Img/img_align_celeba", dataset=_NAME, hint=_PICTURES
    )
    labels = attributes[:, names.index(attribute)].long()

    def part(number: int) -> Described:
        rows = (parts == number).nonzero().flatten()[:most]
        paths = [folder / files[row] for row in rows.tolist()]
        where = f"part {number} of list_eval_partition.txt"
        pixels = read_pictures(paths, size, channels=3, where=where)
        name = f"{_NAME}, {attribute}"
        images = ImageSet(pixels, labels[rows], rows, ("no", "yes"), name)
        return Described(images, {"attributes": attributes[rows]})

    return ThreeParts(part(0), part(1), part(2))


def _attributes(root: Path) -> tuple[tuple[str, ...], list[str], Tensor]:
    # The list begins with the number of images and the names of the attributes.
    name = "list_attr_celeba.txt"
    file = found(root, name, f"Anno/{name}", dataset=_NAME, hint=_LISTS)
    count, *rows = (row[0].split() for row in listed_rows(file, columns=1))
    header, values = tuple(rows[0] if rows else ()), rows[1:]
    if len(count) != 1 or numbers(count, where=file) != [len(values)] or not values:
        raise UsageError(
            f"{file} says {' '.join(count)} images and lists {len(values)}; unpack it again."
        )
    for number, row in enumerate(values, 3):
        if len(row) != len(header) + 1 or not set(row[1:]) <= {"1", "-1"}:
            raise UsageError(
                f"line {number} of {file} does not give a file and {len(header)} attributes, "
                "each 1 or -1; unpack it again."
            )
    marks = torch.tensor([[mark == "1" for mark in row[1:]] for row in values])
    return header, [row[0] for row in values], marks


def _partition(root: Path, files: Sequence[str]) -> Tensor:
    name = "list_eval_partition.txt"
    file = found(root, name, f"Eval/{name}", dataset=_NAME, hint=_LISTS)
    rows = listed_rows(file, columns=2)
    if [row[0] for row in rows] != list(files):
        raise UsageError(
            f"{file} lists other files than list_attr_celeba.txt; unpack both again."
        )
    return torch.tensor(numbers([row[1] for row in rows], where=file))
