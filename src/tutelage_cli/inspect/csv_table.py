"""Labels as a CSV file that a spreadsheet opens and runs nothing of."""

import codecs
import csv
import io
import re
from collections.abc import Iterable
from itertools import compress
from math import isfinite
from typing import Any

import numpy as np
from jaxtyping import Bool

from tutelage_cli.inspect.combined import Labels

FORMULA = re.compile(r" *[=+\-@\t\r]")
"""what a spreadsheet takes for the start of a formula"""


def csv_bytes(labels: Labels, only: Bool[np.ndarray, "N"] | None = None) -> bytes:
    """All labels, or some, a row for each."""
    names, columns = zip(*_columns(labels, only), strict=True)
    content = io.BytesIO()
    content.write(codecs.BOM_UTF8)
    file = io.TextIOWrapper(content, "utf-8", errors="backslashreplace", newline="")
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    file.flush()
    return content.getvalue()


def harmless(text: str) -> str:
    """A text that no spreadsheet computes."""
    return f"'{text}" if FORMULA.match(text) else text


def _columns(
    labels: Labels, only: Bool[np.ndarray, "N"] | None
) -> list[tuple[str, Iterable[str | int]]]:
    columns: list[tuple[str, Any, Any]] = [
        ("rank", range(1, len(labels) + 1), int),
        ("name", labels.names, harmless),
        ("given", labels.given, harmless),
        ("predicted", labels.predicted, harmless),
        ("true", labels.true, harmless),
        ("flagged", labels.flagged, int),
        ("probability_wrong", None if labels.wrong is None else labels.wrong.mean(1), _number),
        ("weight", labels.weights, _number),
        ("loss", labels.losses, _number),
        ("students", labels.students, int),
        ("distrusted_by", labels.distrusted, int),
        ("text", labels.texts, harmless),
    ]
    for name, past in (("loss", labels.past_losses), ("weight", labels.past_weights)):
        each = () if past is None else zip(labels.epochs, past.T, strict=True)
        columns += [(f"{name}_epoch_{epoch}", column, _number) for epoch, column in each]
    kept = [True] * len(labels) if only is None else only.tolist()
    return [
        (name, map(cell, compress(column, kept)))
        for name, column, cell in columns
        if column is not None
    ]


def _number(value: float) -> str:
    return f"{value:.6g}" if isfinite(value) else ""
