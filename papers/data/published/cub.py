"""CUB-200-2011: birds, with their segmentations and boxes."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from papers.data.published.layout import (
    found,
    held_out_share,
    listed_rows,
    numbers,
    picture,
    read_pictures,
)
from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage_cli.data.images import Described, ImageSet, ThreeParts
from tutelage_cli.data.resize import Size, centre_cut, covering
from tutelage_cli.data.synthetic.compositing import drawn_mapping
from tutelage_cli.data.synthetic.named import Pools, shifted_backgrounds

_NAME = "CUB-200-2011"
_PICTURES = "give the folder CUB_200_2011 that CUB_200_2011.tgz unpacks to"
_MASKS = "unpack segmentations.tgz of the same page into it, or beside it"
_PLACES = "Places365"
_LISTS = (
    "unpack filelist_places365-standard.tar, of the project's download page, beside val_large"
)
_PLACE_PICTURES = "unpack val_large.tar, of the project's download page, there"


def read_cub(root: Path, size: Size, *, held_out: float, seed: int) -> ThreeParts:
    """Birds of 200 species with their segmentations.

    Source: Wah et al., 2011, "The Caltech-UCSD Birds-200-2011 Dataset"; Koh et al., 2020,
        "Concept Bottleneck Models", for the held-out share.
    """
    birds, learned = _whole(root, size)
    train = learned.nonzero().flatten()
    kept, judged = held_out_share(train, held_out, seed=seed)
    return ThreeParts(
        birds.rows(train[kept]),
        birds.rows(train[judged]),
        birds.rows((~learned).nonzero().flatten()),
    )


def _whole(root: Path, size: Size) -> tuple[Described, Tensor]:
    # All birds, and which of them are for training.
    numbered = _column(root, "images.txt")
    labels, learned, boxes = (
        _in_order(numbered, _column(root, name), root / name)
        for name in ("image_class_labels.txt", "train_test_split.txt", "bounding_boxes.txt")
    )
    species = _column(root, "classes.txt")
    classes = tuple(species[number].partition(".")[2] for number in sorted(species))
    corners = [_box_of(box, root / "bounding_boxes.txt") for box in boxes]
    facts = _birds(root, numbered, corners, size)
    kinds = torch.tensor(numbers(labels, where=root / "image_class_labels.txt")) - 1
    images = ImageSet(facts.pop("pixels"), kinds, torch.tensor(list(numbered)), classes, _NAME)
    marks = numbers(learned, where=root / "train_test_split.txt")
    return Described(images, facts), torch.tensor(marks) == 1


def _birds(
    root: Path, numbered: Mapping[int, str], boxes: Sequence[Sequence[float]], size: Size
) -> dict[str, Tensor]:
    pictures = found(root, "images", dataset=_NAME, hint=_PICTURES)
    masks = found(root, "segmentations", "../segmentations", dataset=_NAME, hint=_MASKS)
    count = len(numbered)
    birds = {
        "pixels": torch.empty(count, 3, *size, dtype=torch.uint8),
        "mask": torch.empty(count, *size, dtype=torch.uint8),
        "box": torch.empty(count, 4),
    }
    for row, (number, name) in enumerate(numbered.items()):
        bird = picture(pictures / name, where=f"line {row + 1} of images.txt")
        mask = picture((masks / name).with_suffix(".png"), where=f"the mask of bird {number}")
        if mask.shape[1:] != bird.shape[1:]:
            raise UsageError(
                f"the mask of {pictures / name} has the size {tuple(mask.shape[1:])}, but the "
                f"picture {tuple(bird.shape[1:])} (height, width); unpack both again."
            )
        birds["pixels"][row] = covering(bird[None], size)[0].expand(3, -1, -1)
        birds["mask"][row] = covering(mask[None, :1], size)[0, 0]
        birds["box"][row] = _in_new_pixels(boxes[row], Size(*bird.shape[1:]), size)
    return birds


def _in_new_pixels(box: Sequence[float], old: Size, new: Size) -> Tensor:
    # From x, y, width, height in the picture to top, left, bottom, right in what is kept of it.
    left, top, width, height = box
    cut = centre_cut(old, new)
    down, right = new.height / cut.height, new.width / cut.width
    rows = torch.tensor([top, top + height]).sub(cut.top).mul(down).clamp(0, new.height)
    columns = torch.tensor([left, left + width]).sub(cut.left).mul(right).clamp(0, new.width)
    return torch.stack([rows, columns], 1).flatten()


def _box_of(text: str, file: Path) -> list[float]:
    try:
        left, top, width, height = (float(value) for value in text.split())
    except ValueError as error:
        raise UsageError(
            f"{file} has the box '{text}'; allowed: x, y, width and height. Unpack it again."
        ) from error
    return [left, top, width, height]


def _column(root: Path, name: str) -> dict[int, str]:
    file = found(root, name, dataset=_NAME, hint=_PICTURES)
    rows = listed_rows(file, columns=2)
    return dict(
        zip(
            numbers([row[0] for row in rows], where=file), (row[1] for row in rows), strict=True
        )
    )


def _in_order(order: Mapping[int, str], column: Mapping[int, str], file: Path) -> list[str]:
    if column.keys() != order.keys():
        raise UsageError(
            f"{file} has {len(column)} numbers, other ones than images.txt ({len(order)}); "
            "unpack the lists again."
        )
    return [column[number] for number in order]


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
            f"{_PLACES} has no category {max(wanted, key=abs)}; allowed: 0..{len(names) - 1}."
        )
    folder = found(root, "val_large", dataset=_PLACES, hint=_PLACE_PICTURES)
    file = _list(root, "places365_val.txt")
    rows = listed_rows(file, columns=2)
    labels = torch.tensor(numbers([row[1] for row in rows], where=file))
    chosen = torch.tensor([label in wanted for label in labels.tolist()]).nonzero().flatten()
    paths = [folder / rows[row][0] for row in chosen.tolist()]
    images = read_pictures(paths, size, channels=3, where=f"those chosen of {file.name}")
    return ImageSet(images, labels[chosen], chosen, names, _PLACES)


def _list(root: Path, name: str) -> Path:
    return found(
        root, name, f"filelist_places365-standard/{name}", dataset=_PLACES, hint=_LISTS
    )


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
