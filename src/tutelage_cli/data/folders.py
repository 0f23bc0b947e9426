"""Folders of images: one folder for each class, perhaps below train/ and test/."""

from pathlib import Path
from typing import NamedTuple

from tutelage.errors import UsageError, nearest, one_line
from tutelage_cli.data.assemble import TEST_NAMES, Examples, choose
from tutelage_cli.data.decode import gather
from tutelage_cli.data.reading import STRICT, LeftOut, Reading, note_on

EXTENSIONS = frozenset(
    f".{ending}"
    for ending in (
        *("jpg", "jpeg", "jpe", "jfif", "jif", "jp2"),
        *("png", "apng", "gif", "webp", "avif", "tga"),
        *("bmp", "dib", "tif", "tiff"),
        *("ppm", "pgm", "pbm", "pnm"),
    )
)
"""endings of image files, in any case of letters; other files are counted and left out"""


class Listed(NamedTuple):
    """The images of one split, none of them opened yet."""

    files: list[Path]
    labels: list[str]
    """the class of each"""
    classes: tuple[str, ...]
    where: str
    """the split, for messages"""
    notes: tuple[str, ...] = ()
    """what was left out, a sentence each"""


def list_folders(root: Path, *, reading: Reading = STRICT) -> tuple[Listed, Listed | None]:
    """The images of the splits of a folder.

    Where ``root`` holds a folder ``train``, the class folders lie in that and in ``test``
    (or ``validation``, or ``val``); else they lie in ``root``. A class is named after its
    folder and holds the images at any depth below. Classes and files come in sorted order.
    Names that begin with a dot, files with other endings, links to folders, and files
    beside the class folders are counted and named in the notes.
    """
    train, test = _split_folders(root)
    classes = tuple(folder.name for folder in class_folders(train))
    first = _listed(train, classes, reading)
    second = None if test is None else _listed(test, classes, reading)
    if train != root:
        beside = [path for path in sorted(root.iterdir()) if path not in (train, test)]
        notes = note_on(root, [LeftOut(path, _why(path)) for path in beside])
        first = first._replace(notes=notes + first.notes)
    return first, second


def folder_files(root: Path) -> list[Path]:
    """What :func:`list_folders` takes images and labels from."""
    return [
        path
        for split in _split_folders(root)
        if split is not None
        for folder in class_folders(split)
        for path in (folder, *_found(folder)[0])
    ]


def class_folders(root: Path) -> list[Path]:
    """The folders directly below a folder, sorted; those that begin with a dot are left out."""
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
    found = {folder.name: _found(folder) for folder in folders}
    _refuse_bad_classes(root, found, classes, reading)
    files = [path for paths, _ in found.values() for path in paths]
    labels = [name for name, (paths, _) in found.items() for _ in paths]
    beside = [path for path in sorted(root.iterdir()) if path not in folders]
    left = [LeftOut(path, _why(path)) for path in beside]
    left += [one for _, others in found.values() for one in others]
    return Listed(files, labels, classes, str(root), note_on(root, left))


def read_listed(split: Listed, reading: Reading) -> Examples:
    """Read the images of a split; it is a UsageError if one cannot be."""
    root, files = Path(split.where), split.files
    pictures = ((f"{path} (image {n})", path) for n, path in enumerate(files))
    images, rows, notes = gather(pictures, len(files), reading, where=split.where, root=Path())
    names = tuple(path.relative_to(root).as_posix() for path in files)
    notes = split.notes + notes
    return Examples(images, split.labels, split.classes, split.where, rows, names, notes)


def _found(folder: Path) -> tuple[list[Path], list[LeftOut]]:
    # the images below a folder, and all else there is
    images: list[Path] = []
    left: list[LeftOut] = []
    folders = [folder]
    while folders:
        for path in _entries(folders.pop()):
            if path.name.startswith("."):
                left.append(LeftOut(path, "hidden"))
            elif path.is_dir() and not path.is_symlink():
                folders.append(path)
            elif path.suffix.casefold() in EXTENSIONS and (
                path.is_file() or (path.is_symlink() and not path.exists())
            ):
                images.append(path)
            else:
                left.append(LeftOut(path, _why(path)))
    return sorted(images), sorted(left)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise UsageError(f"{folder} cannot be listed ({error.strerror}).") from error


def _why(path: Path) -> str:
    if path.name.startswith("."):
        return "hidden"
    if path.is_dir():
        return "linked folder" if path.is_symlink() else "folder"
    return path.suffix.casefold() or "without ending"


def _refuse_bad_classes(
    root: Path,
    found: dict[str, tuple[list[Path], list[LeftOut]]],
    classes: tuple[str, ...],
    reading: Reading,
) -> None:
    empty = [name for name, (paths, _) in found.items() if not paths]
    if len(empty) == len(found):
        raise UsageError(
            f"{root} holds no images in its folders ({', '.join(empty)}); endings read: "
            f"{', '.join(sorted(EXTENSIONS, key=lambda name: (len(name), name)))}."
        )
    if empty and reading.empty_classes == "refuse":
        others = sorted({why for name in empty for _, why in found[name][1]})
        there = f" Files there: {', '.join(others)}." if others else ""
        raise UsageError(
            f"{root} has class folders without images: {', '.join(map(one_line, empty))}; "
            "fill or remove them, or keep them as classes that no example has: "
            f"--empty-classes keep.{there}"
        )
    for name in found:
        if name not in classes:
            raise UsageError(
                f"{root} has the class '{one_line(name)}', which train lacks. "
                f"{nearest(name, classes)}"
            )
