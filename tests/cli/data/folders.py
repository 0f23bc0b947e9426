"""The images of a folder, read."""

from pathlib import Path

from tutelage_cli.data.assemble import Examples
from tutelage_cli.data.folders import list_folders, read_listed
from tutelage_cli.data.reading import STRICT, Reading


def read_folders(root: Path, *, reading: Reading = STRICT) -> tuple[Examples, Examples | None]:
    train, test = list_folders(root, reading=reading)
    return read_listed(train, reading), None if test is None else read_listed(test, reading)
