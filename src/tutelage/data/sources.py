"""The one door to data: a word, a path or the id of a Hugging Face data set."""

import re
from pathlib import Path

from tutelage.data.assemble import Examples, assemble
from tutelage.data.folders import class_folders, read_folders
from tutelage.data.hub import parquet_splits, read_hub, read_parquet
from tutelage.data.images import Splits
from tutelage.data.mnist5k import NAME as MNIST5K
from tutelage.data.mnist5k import read_mnist5k
from tutelage.data.tables import lists_images, read_tables, table_splits
from tutelage.errors import UsageError

_HUB_ID = re.compile(r"(\w[\w.-]*(?:/\w[\w.-]*)?)(?::([\w.-]+))?")


def load(
    source: str, *, image_column: str | None = None, label_column: str | None = None
) -> Splits:
    """The images and labels of a source, as a train and a test split.

    A source is, tried in this order,

    * the word ``mnist5k``: 5,000 real digits, 4,000 to train and 1,000 to test on;
    * a folder of parquet files in the form of the Hugging Face Hub (or one such file);
    * a folder with a csv file that lists paths and labels (or that file);
    * a folder with one folder of images for each class, perhaps below train/ and test/;
    * the id of a Hugging Face data set: ``name``, ``owner/name``, or either with ``:config``.

    The test split is ``test``, or else ``validation`` or ``val``; where there is none, a
    fixed fifth of every class of train is held out.

    Args:
        source: What to load.
        image_column: The column of images (or of paths to them); None to guess.
        label_column: The column of labels; None to guess.

    Returns:
        Both splits, in memory.

    Raises:
        UsageError: If the source does not exist, is broken, or is not a set of images of one
            size in at least two classes.
    """
    columns = {"image_column": image_column, "label_column": label_column}
    path = Path(source).expanduser()
    match = _HUB_ID.fullmatch(source)
    if source == MNIST5K:
        _refuse_columns(source, **columns)
        return read_mnist5k()
    if source and path.is_dir():
        examples = _read_folder(path, **columns)
    elif path.is_file() and path.suffix.casefold() == ".parquet":
        examples = read_parquet({"train": [path]}, **columns)
    elif path.is_file() and path.suffix.casefold() == ".csv":
        examples = read_tables({"train": path}, **columns)
    elif path.exists() or match is None:
        raise UsageError(
            f"'{source}' is not a source of data; give the word {MNIST5K}, an existing folder, "
            ".csv or .parquet file, or a Hugging Face data set id such as owner/name."
        )
    else:
        examples = read_hub(match[1], match[2], **columns)
    return assemble(*examples, name=source if not path.exists() else path.resolve().name)


def _read_folder(
    path: Path, *, image_column: str | None, label_column: str | None
) -> tuple[Examples, Examples | None]:
    columns = {"image_column": image_column, "label_column": label_column}
    if files := parquet_splits(path):
        return read_parquet(files, **columns)
    tables = table_splits(path)
    if tables and (lists_images(tables["train"], **columns) or not class_folders(path)):
        return read_tables(tables, **columns)
    _refuse_columns(str(path), **columns)
    return read_folders(path)


def _refuse_columns(source: str, *, image_column: str | None, label_column: str | None) -> None:
    for option, column in (("image_column", image_column), ("label_column", label_column)):
        if column is not None:
            raise UsageError(
                f"{option} is '{column}', but {source} has no columns; leave {option} out."
            )
