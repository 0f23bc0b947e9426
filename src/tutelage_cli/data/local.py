"""Well-known data sets by name: a local copy where there is one, else the Hub's."""

import os
from pathlib import Path

from tutelage.errors import UsageError, nearest
from tutelage_cli.data.images import Splits
from tutelage_cli.data.reading import STRICT, Reading
from tutelage_cli.data.stored import load_stored

FOLDER = "TUTELAGE_DATA"
"""environment variable: the folder of local copies, one subfolder for each name"""
KNOWN = {
    "cifar10": "uoft-cs/cifar10",
    "cifar100": "uoft-cs/cifar100",
    "mini_imagenet": None,
    "mnist": "ylecun/mnist",
    "omniglot": None,
    "pneumoniamnist": None,
}
"""where on the Hub a data set without a local copy comes from; None: from nowhere"""


def load_known(
    name: str,
    *,
    image_column: str | None = None,
    label_column: str | None = None,
    reading: Reading = STRICT,
) -> Splits:
    """A well-known data set of images."""
    copy = local_copy(name)
    columns = {"image_column": image_column, "label_column": label_column}
    if copy is not None:
        return load_stored(str(copy), **columns, reading=reading)
    on_hub = KNOWN[name]
    if on_hub is None:
        raise UsageError(_missing(name))
    try:
        return load_stored(on_hub, **columns, reading=reading)
    except UsageError as error:
        raise UsageError(f"{_missing(name)} (On the Hub: {error})") from error


def local_copy(name: str) -> Path | None:
    """The folder of a well-known data set's local copy."""
    if name not in KNOWN:
        raise UsageError(f"Unknown data set '{name}'. {nearest(name, KNOWN)}")
    return local_folder(name)


def local_folder(name: str) -> Path | None:
    """A folder of local data, of images or not."""
    folder = os.environ.get(FOLDER, "")
    copy = Path(folder) / name
    return copy if folder and copy.is_dir() else None


def _missing(name: str) -> str:
    return (
        f"{name} is not here: set {FOLDER} to a folder that holds a copy in its subfolder "
        f"{name}."
    )
