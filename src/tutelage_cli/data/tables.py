"""Csv files that list the path and the label of every image."""

from collections.abc import Mapping
from pathlib import Path

from tutelage.errors import UsageError
from tutelage_cli.data.assemble import TEST_NAMES, Examples, choose
from tutelage_cli.data.columns import PATH_COLUMNS, pick
from tutelage_cli.data.csv_files import CsvColumns, read_csv
from tutelage_cli.data.decode import gather
from tutelage_cli.data.label_values import literal
from tutelage_cli.data.reading import STRICT, Reading, is_table

LABEL_COLUMNS = ("label", "target", "class")


def read_tables(
    files: Mapping[str, Path], reading: Reading = STRICT
) -> tuple[Examples, Examples | None]:
    """The splits of csv files.

    Paths are relative to the csv file; a backslash is read as a slash where no file of the
    literal name exists. It is a UsageError if a column is missing, or a table or an image
    cannot be read.
    """
    train, test = choose(files, where=str(next(iter(files.values())).parent))

    def examples(file: Path) -> Examples:
        columns, places, labels = _rows(file, reading)
        pictures = (
            (f"{place} (row {row} of {file.name}, the header is row 1)", place)
            for row, place in zip(columns.numbers, places, strict=True)
        )
        images, rows, notes = gather(
            pictures, len(places), reading, where=str(file), root=Path()
        )
        return Examples(
            images,
            literal(labels),
            None,
            str(file),
            rows,
            tuple(_relative(place, file.parent) for place in places),
            columns.notes(str(file)) + notes,
            columns.rows(str(file)),
            typed=False,
        )

    return examples(train), None if test is None else examples(test)


def table_splits(folder: Path) -> dict[str, Path]:
    """The csv files in a folder by split.

    A csv file named after a split is that split where there is a ``train.csv``; otherwise the
    only csv file is the train split. Hidden ones do not count.
    """
    files = sorted(path for path in folder.iterdir() if is_table(path, ".csv"))
    named = {path.stem.casefold(): path for path in files}
    if "train" in named:
        return {name: named[name] for name in ("train", *TEST_NAMES) if name in named}
    if len(files) > 1:
        raise UsageError(
            f"{folder} holds several csv files ({', '.join(path.name for path in files)}); "
            "give the path of one, or name them train.csv and test.csv."
        )
    return {"train": files[0]} if files else {}


def table_files(files: Mapping[str, Path], reading: Reading) -> list[Path]:
    """The files that :func:`read_tables` takes images and labels from."""
    tables = choose(files, where=str(next(iter(files.values())).parent))
    return [
        place
        for file in tables
        if file is not None
        for place in (file, *_rows(file, reading)[1])
    ]


def listed_files(file: Path, reading: Reading) -> list[Path]:
    """The file of each row of a csv file of images."""
    return _rows(file, reading)[1]


def lists_images(file: Path, reading: Reading = STRICT) -> bool:
    """Whether a csv file has a column of paths and one of labels, or several that may be it."""
    try:
        names = {name.strip().casefold() for name in read_csv(file)}
    except UsageError:
        if file.stem.casefold() == "train":
            raise
        return False
    wanted = ((reading.image_column, PATH_COLUMNS), (reading.label_column, LABEL_COLUMNS))
    return all(names & ({own.casefold()} if own else {*known}) for own, known in wanted)


def _rows(file: Path, reading: Reading) -> tuple[CsvColumns, list[Path], list[str]]:
    columns, named, where = read_csv(file), reading.image_column, str(file)
    paths = "--image-column, or one of texts with --text-column"
    option = "--image-column" if named is not None else paths
    path = pick(list(columns), named, PATH_COLUMNS, option=option, where=where)
    label = pick(
        list(columns), reading.label_column, LABEL_COLUMNS, option="--label-column", where=where
    )
    places = [_resolved(file.parent, place) for place in columns[path]]
    return columns, places, columns[label]


def _relative(place: Path, root: Path) -> str:
    return place.relative_to(root).as_posix() if place.is_relative_to(root) else str(place)


def _resolved(root: Path, text: str) -> Path:
    path = root / text
    if "\\" in text and not path.exists():
        return root / text.replace("\\", "/")
    return path
