"""Csv files: every value as it is written, every row under its spreadsheet's number."""

import codecs
import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tutelage.errors import UsageError
from tutelage_cli.data.columns import COUNTED, TableRows, listed, refuse_twice

_LONGEST = 2**31 - 1
"""letters of a field; the csv module refuses more than 131,072 by itself"""
_START = 64
"""bytes by which an encoding is detected"""
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


class CsvColumns(dict[str, list[str]]):
    """The values of a csv file by column.

    It has the spreadsheet's number of each row, and of empty lines, which are passed over.
    """

    def __init__(
        self,
        columns: dict[str, list[str]],
        numbers: Sequence[int] = (),
        empty: Sequence[int] = (),
    ) -> None:
        super().__init__(columns)
        self.numbers, self.empty = numbers, empty

    def rows(self, where: str) -> TableRows:
        """The file and the row numbers."""
        return TableRows(((where, self.numbers),))

    def notes(self, where: str) -> tuple[str, ...]:
        """What was passed over."""
        if not self.empty:
            return ()
        many = f"{len(self.empty)} empty line{'s' if len(self.empty) > 1 else ''}"
        return (f"{where}: {many} left out, {listed(self.empty)}.",)


def csv_header(file: Path) -> list[str]:
    """The column names of a csv file."""
    return _header(file, _lines(file))[1]


def read_csv(file: Path) -> CsvColumns:
    """The columns of a csv file, every value exactly as it is written."""
    lines = _lines(file)
    first, header = _header(file, lines)
    width, ragged = len(header), None
    values: list[str] = []
    numbers: list[int] = []
    empty: list[int] = []
    for number, row in lines:
        if not row:
            empty.append(number)
            continue
        if len(row) != width and ragged is None:
            ragged = number, len(row)
        numbers.append(number)
        values += row
    if ragged is not None:
        raise UsageError(
            f"row {ragged[0]} {COUNTED} of {file} has {ragged[1]} values, but there are "
            f"{width} columns; quote values that hold a comma."
        )
    last = numbers[-1] if numbers else first
    columns = {name: values[place::width] for place, name in enumerate(header)}
    return CsvColumns(columns, numbers, [number for number in empty if number < last])


def _lines(file: Path) -> Iterator[tuple[int, list[str]]]:
    _refuse_encoding(file)
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines, _long_fields():
            yield from enumerate(csv.reader(lines), 1)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{file} cannot be read as a UTF-8 csv file ({error}).") from error


def _header(file: Path, lines: Iterable[tuple[int, list[str]]]) -> tuple[int, list[str]]:
    first = next((line for line in lines if line[1]), None)
    if first is None:
        raise UsageError(f"{file} is empty; give a csv file that begins with column names.")
    _refuse_separator(file, first[1])
    refuse_twice(first[1], where=str(file))
    return first


def _refuse_encoding(file: Path) -> None:
    # UTF-16 and UTF-32, with their mark or by the zeros between plain letters
    try:
        with file.open("rb") as lines:
            start = lines.read(_START)
    except OSError:
        return  # reported where it is read
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in start:
        raise UsageError(
            f"{file} is no UTF-8 csv file: it begins as UTF-16 or UTF-32 does, or as no text. "
            "Save it as 'CSV UTF-8', as spreadsheets call it."
        )


def _refuse_separator(file: Path, header: Sequence[str]) -> None:
    line = ",".join(header)
    if line.casefold().startswith("sep="):
        raise UsageError(
            f"{file} begins with the line {line!r:.20}, which is for spreadsheets alone: take "
            "it out, and save the table with commas."
        )
    for separator, name in _SEPARATORS.items():
        if line.count(separator) >= len(header):
            raise UsageError(
                f"{file} is separated by {name} ({separator!r}), not by commas: its first row "
                f"is {line!r:.60}. Save it with commas."
            )


@contextmanager
def _long_fields() -> Iterator[None]:
    before = csv.field_size_limit(_LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(before)
