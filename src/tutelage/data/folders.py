"""Folders of images: one folder for each class, perhaps below train/ and test/."""

from pathlib import Path
from typing import NamedTuple

from tutelage.data.assemble import TEST_NAMES, Examples, choose
from tutelage.data.gather import gather
from tutelage.data.reading import STRICT, Reading
from tutelage.errors import UsageError, nearest

EXTENSIONS = frozenset({
    ".bmp",
    ".gif",
    ".jpeg",
    ".jpg",
    ".png",
    ".ppm",
    ".tif",
    ".tiff",
    ".webp",
})
"""endings of image files, in any case of letters; other files are passed over"""


class Listed(NamedTuple):
    """The images of one split, none of them opened yet."""

    files: list[Path]
    labels: list[str]
    """the class of each"""
    classes: tuple[str, ...]
    where: str
    """the split, for messages"""


def list_folders(root: Path, *, reading: Reading = STRICT) -> tuple[Listed, Listed | None]:
    """What :func:`read_folders` reads, by its rules and in its order.

    Args:
        root: An existing folder.
        reading: What becomes of empty classes.

    Returns:
        The train split, and the test split or None.
    """
    train, test = _split_folders(root)
    classes = tuple(folder.name for folder in class_folders(train))
    first = _listed(train, classes, reading)
    return first, None if test is None else _listed(test, classes, reading)


def read_folders(root: Path, *, reading: Reading = STRICT) -> tuple[Examples, Examples | None]:
    """The splits of a folder of images.

    Where ``root`` holds a folder ``train``, the class folders lie in that and in ``test``
    (or ``validation``, or ``val``); else they lie in ``root``. A class is named after its
    folder and holds the images at any depth below; names that begin with a dot are passed
    over. Classes and files come in sorted order.

    It is a UsageError if there are no class folders, one of them holds no image, the test
    split has a class that train lacks, or an image cannot be read, where ``reading`` does not
    say otherwise.

    Args:
        root: An existing folder.
        reading: What becomes of broken images and empty classes.

    Returns:
        The train split, and the test split or None.
    """
    train, test = list_folders(root, reading=reading)
    return _read(train, reading), None if test is None else _read(test, reading)


def folder_files(root: Path) -> list[Path]:
    """What :func:`read_folders` takes images and labels from.

    Args:
        root: An existing folder.

    Returns:
        The class folders of the train and the test split, each with its images.
    """
    return [
        path
        for split in _split_folders(root)
        if split is not None
        for folder in class_folders(split)
        for path in (folder, *_image_files(folder))
    ]


def class_folders(root: Path) -> list[Path]:
    """The folders directly below a folder, sorted; those that begin with a dot are left out.

    Args:
        root: An existing folder.

    Returns:
        Their paths.
    """
    return sorted(
        path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")
    )


def _split_folders(root: Path) -> tuple[Path, Path | None]:
    names = [name for name in ("train", *TEST_NAMES) if (root / name).is_dir()]
    splits = {name: root / name for name in names} if "train" in names else {"train": root}
    return choose(splits, where=str(root))


def _listed(root: Path, classes: tuple[str, ...], reading: Reading) -> Listed:
    folders = class_folders(root)
    if not folders:
        raise UsageError(
            f"{root} holds no class folders, no parquet files and no csv file of images; put "
            "the images of every class into a folder named after the class."
        )
    found = {folder.name: _image_files(folder) for folder in folders}
    _refuse_bad_classes(root, found, classes, reading)
    files = [path for paths in found.values() for path in paths]
    labels = [name for name, paths in found.items() for _ in paths]
    return Listed(files, labels, classes, str(root))


def _read(split: Listed, reading: Reading) -> Examples:
    root, files = Path(split.where), split.files
    pictures = ((f"{path} (image {n})", path) for n, path in enumerate(files))
    images, rows, notes = gather(pictures, len(files), reading, where=split.where, root=Path())
    names = tuple(path.relative_to(root).as_posix() for path in files)
    return Examples(images, split.labels, split.classes, split.where, rows, names, notes)


def _image_files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.casefold() in EXTENSIONS
        and not path.name.startswith(".")
        and path.is_file()
    )


def _refuse_bad_classes(
    root: Path, found: dict[str, list[Path]], classes: tuple[str, ...], reading: Reading
) -> None:
    empty = [name for name, paths in found.items() if not paths]
    if len(empty) == len(found):
        raise UsageError(
            f"{root} holds no images in its folders ({', '.join(empty)}); endings read: "
            f"{', '.join(sorted(EXTENSIONS))}."
        )
    if empty and reading.empty_classes == "refuse":
        raise UsageError(
            f"{root} has class folders without images: {', '.join(empty)}; fill or remove "
            "them, or keep them as classes that no example has: empty_classes keep "
            "(--empty-classes keep)."
        )
    for name in found:
        if name not in classes:
            raise UsageError(
                f"{root} has the class '{name}', which train lacks. {nearest(name, classes)}"
            )
