"""Well-known data sets by name: a local copy where there is one, else the Hub's."""

import os
from pathlib import Path

from tutelage.data.images import Splits
from tutelage.data.sources import load
from tutelage.errors import UsageError, nearest

FOLDER = "TUTELAGE_DATA"
"""environment variable: the folder of local copies, one subfolder for each name"""
HUB = {
    "cifar10": "uoft-cs/cifar10",
    "cifar100": "uoft-cs/cifar100",
    "mnist": "ylecun/mnist",
}
"""where a data set without a local copy comes from"""


def load_known(name: str) -> Splits:
    """A well-known data set of images.

    Args:
        name: One of ``HUB``.

    Returns:
        Its train and test splits.

    Raises:
        UsageError: If the name is unknown, or there is neither a local copy nor a way to the
            Hub.
    """
    if name not in HUB:
        raise UsageError(f"Unknown data set '{name}'. {nearest(name, HUB)}")
    copy = Path(os.environ.get(FOLDER, "")) / name
    if os.environ.get(FOLDER) and copy.is_dir():
        return load(str(copy))
    try:
        return load(HUB[name])
    except UsageError as error:
        raise UsageError(
            f"{name} is not here: set {FOLDER} to a folder that holds a copy in its subfolder "
            f"{name}. (On the Hub: {error})"
        ) from error
