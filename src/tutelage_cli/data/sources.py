"""Loads any source of images: a name, a path or the id of a Hugging Face data set."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from tutelage.errors import UsageError
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.local import KNOWN, MNIST5K, load_known, read_mnist5k
from tutelage_cli.data.overlap import content_numbers, tested_on_training
from tutelage_cli.data.reading import STRICT, Reading
from tutelage_cli.data.stored import is_source, load_stored, refuse_columns
from tutelage_cli.data.synthetic import named

_LOG = logging.getLogger(__name__)
WORDS: Mapping[str, Callable[[], Splits[ImageSet]]] = {MNIST5K: read_mnist5k, **named.SETS}
"""data that has a name of its own"""


def is_named(source: str) -> bool:
    """Whether a source is one of the names that are known here, and nothing stored."""
    return source in WORDS or (source in KNOWN and not Path(source).exists())


def load(source: str, reading: Reading = STRICT) -> Splits[ImageSet]:
    """``read``, and a note, which is logged, of test images that are training images, too."""
    splits = read(source, reading)
    numbers = content_numbers(splits.train, splits.test)
    note = tested_on_training(splits.train, splits.test, *numbers)
    if not note:
        return splits
    _LOG.warning(note)
    return replace(splits, notes=(*splits.notes, note))


def read(source: str, reading: Reading = STRICT) -> Splits[ImageSet]:
    """The images and labels of a source, as a train and a test split.

    A source is, tried in this order,

    * one of ``WORDS``: ``mnist5k``, 5,000 real digits, 4,000 to train and 1,000 to test on, or
      what is made from other sets (see :mod:`tutelage_cli.data.synthetic.named`);
    * a folder or file, as :func:`tutelage_cli.data.stored.load_stored` reads it;
    * the name of a well-known set (see :func:`tutelage_cli.data.local.load_known`);
    * the id of a Hugging Face data set: ``name``, ``owner/name``, or either with ``:config``.
    """
    if source in WORDS:
        refuse_columns(source, reading)
        return WORDS[source]()
    if is_named(source):
        return load_known(source, reading)
    require_source(source)
    return load_stored(source, reading)


def require_source(source: str) -> None:
    """Refuse what is neither a name known here, nor stored, nor an id, without reading it."""
    if not is_named(source) and not is_source(source):
        missing = "" if Path(source).expanduser().exists() else ": there is no such file"
        raise UsageError(
            f"'{source}' is not a source of data{missing}; give one of the words "
            f"{', '.join(WORDS)}, an existing folder, .csv or .parquet file, or a Hugging Face "
            f"data set id such as owner/name.{_named_alike(Path(source))}"
        )


def _named_alike(path: Path) -> str:
    """The end of a message about a path that is not there: a source beside it that is."""
    try:
        names = get_close_matches(path.name, [found.name for found in path.parent.iterdir()])
    except OSError:
        return ""
    close = [path.parent / name for name in names if is_source(str(path.parent / name))]
    return f" Did you mean '{close[0]}'?" if close else ""
