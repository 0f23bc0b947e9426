"""Labels as a CSV file that a spreadsheet opens and runs nothing of."""

import codecs
import csv
import io
import re
from collections.abc import Callable, Sequence
from itertools import compress, repeat
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from tutelage_cli.inspect.combined import Labels

FORMULA = re.compile(r" *[=+\-@\t\r]")
"""what a spreadsheet takes for the start of a formula"""
_BLOCK = 1 << 16
"""labels whose cells are in memory at a time"""


class _Column(NamedTuple):
    """A column of the file."""

    name: str
    values: Any
    """a sequence of texts, or an array"""
    cell: Callable[[Any], str | int]
    """what is written of a value"""


def csv_bytes(labels: Labels, only: Bool[np.ndarray, "N"] | None = None) -> bytes:
    """All labels, or some, a row for each."""
    columns = _columns(labels)
    content = io.BytesIO()
    content.write(codecs.BOM_UTF8)
    file = io.TextIOWrapper(content, "utf-8", errors="backslashreplace", newline="")
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow([column.name for column in columns])
    for start in range(0, len(labels), _BLOCK):
        block = slice(start, start + _BLOCK)
        kept = repeat(True) if only is None else only[block].tolist()
        cells = (
            map(cell, compress(_listed(values[block]), kept)) for _, values, cell in columns
        )
        writer.writerows(zip(*cells, strict=True))
    file.flush()
    return content.getvalue()


def harmless(text: str) -> str:
    """A text that no spreadsheet computes."""
    return f"'{text}" if FORMULA.match(text) else text


def _columns(labels: Labels) -> list[_Column]:
    columns = [
        _Column("rank", range(1, len(labels) + 1), int),
        _Column("name", labels.names, harmless),
        _Column("given", labels.given, harmless),
        _Column("predicted", labels.predicted, harmless),
        _Column("true", labels.true, harmless),
        _Column("flagged", labels.flagged, int),
        _Column(
            "probability_wrong", None if labels.wrong is None else labels.wrong.mean(1), _number
        ),
        _Column("weight", labels.weights, _number),
        _Column("loss", labels.losses, _number),
        _Column("students", labels.students, int),
        _Column("distrusted_by", labels.distrusted, int),
        _Column("text", labels.texts, harmless),
    ]
    for name, past in (("loss", labels.past_losses), ("weight", labels.past_weights)):
        each = () if past is None else zip(labels.epochs, past.T, strict=True)
        columns += [_Column(f"{name}_epoch_{epoch}", values, _number) for epoch, values in each]
    return [column for column in columns if column.values is not None]


def _listed(values: Any) -> Sequence[Any]:
    # plain numbers take half as long as an array's to become text
    return values.tolist() if isinstance(values, np.ndarray) else values


def _number(value: float) -> str:
    return f"{value:.6g}" if isfinite(value) else ""
