"""ImageNet, the classification set of ILSVRC 2012, as it is unpacked; nothing is decoded."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from papers.data.published.layout import found, listed_rows, numbers
from papers.data.undecoded import UndecodedImages, undecoded
from tutelage.errors import MissingExtraError, UsageError
from tutelage_cli.data.folders import Listed, list_folders

_NAME = "ImageNet"
_TRAIN = "unpack the training images into train, one folder for each class"
_VAL = "unpack the validation images into val"
_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
_DEVKIT = ("ILSVRC2012_devkit_t12/data", "data", "devkit/data", ".")


class Parts(NamedTuple):
    """Both parts that have labels."""

    train: UndecodedImages
    val: UndecodedImages


def open_imagenet(root: Path) -> Parts:
    """The images of ImageNet, or of any set laid out like it.

    ``train`` holds one folder for each class, and so may ``val``. Where ``val`` holds the
    images themselves, as published, their classes come from the development kit
    ``ILSVRC2012_devkit_t12`` beside it. It is a UsageError if one of these is missing, or does
    not fit the others.
    """
    train = list_folders(found(root, "train", dataset=_NAME, hint=_TRAIN))[0]
    place = found(root, "val", dataset=_NAME, hint=_VAL)
    if any(path.is_dir() for path in place.iterdir()):
        val = list_folders(place)[0]
    else:
        val = _flat(root, place)
    val = val._replace(classes=train.classes)
    return Parts(*(undecoded(part, channels=3, size=None) for part in (train, val)))


def first_classes(part: UndecodedImages, count: int) -> UndecodedImages:
    """The images of the first classes, in the order of their names."""
    kept = part.rows((part.labels < count).nonzero().flatten())
    return replace(kept, classes=part.classes[:count])


def _flat(root: Path, place: Path) -> Listed:
    files = sorted(path for path in place.iterdir() if path.suffix.casefold() == ".jpeg")
    places = [f"{folder}/{_TRUTH}" for folder in _DEVKIT]
    truth = found(root, *places, dataset=_NAME, hint="unpack the development kit there")
    rows = numbers([row[0] for row in listed_rows(truth, columns=1)], where=truth)
    if len(rows) != len(files):
        raise UsageError(
            f"{place} holds {len(files)} images that end in .JPEG, but {truth} lists "
            f"{len(rows)}; unpack both again."
        )
    names = _names(truth.with_name("meta.mat"))
    if unknown := sorted(set(rows) - set(names)):
        raise UsageError(f"{truth} has the class {unknown[0]}, which meta.mat beside it lacks.")
    labels = [names[number] for number in rows]
    return Listed(files, labels, tuple(sorted(set(labels))), str(place))


def _names(file: Path) -> dict[int, str]:
    # the folder of each class by the number that the list of labels has
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise MissingExtraError("scipy", "train") from error
    try:
        rows: Any = loadmat(str(file), squeeze_me=True)["synsets"]
        return {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise UsageError(
            f"{file} is not the list of classes of the development kit ({error}); unpack it "
            "again."
        ) from error
