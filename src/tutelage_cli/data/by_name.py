"""Tables with a row for each example, found again by its name and never by its place."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from jaxtyping import Float
from torch import Tensor

from tutelage.errors import UsageError, first_few
from tutelage.storage.atomic_files import atomic_path
from tutelage_cli.data.classes import ClassLookup
from tutelage_cli.data.columns import NAME, NAME_COLUMNS, pick
from tutelage_cli.data.example_columns import (
    HIGHEST,
    distinct_names,
    finite,
    read_columns,
    rows_of,
)
from tutelage_cli.data.label_values import whole_number
from tutelage_cli.data.labelled import Labelled
from tutelage_cli.data.matching import COUNTED_FROM, ID_COLUMNS, Known, base_of

CONTENT, LABEL = "content", "label"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kept:
    """R rows of a table."""

    values: Mapping[str, float]
    """by the name of the example"""
    contents: Mapping[str, str]
    """fingerprints of the images it was about; empty where the table has none"""
    labels: Mapping[str, str]
    """class names; empty where the table has none"""
    where: str
    """the table, for messages"""


def fingerprints(images: Labelled) -> list[str]:
    """What each example holds, in 16 letters: another picture or text has others."""
    return [
        hashlib.blake2b(content, digest_size=8).hexdigest() for content in images.contents()
    ]


def write_by_name(path: Path, images: Labelled, columns: Mapping[str, Any]) -> None:
    """Write a table with a row for each image: its name, content, class and what is given."""
    about = {
        NAME: images.names(),
        CONTENT: fingerprints(images),
        LABEL: [images.classes[label] for label in images.labels.tolist()],
    }
    with atomic_path(path) as part:
        pq.write_table(pa.table(dict(columns) | about), part)


def read_by_name(file: Path, column: str, *, lowest: float = -HIGHEST) -> Kept:
    """A column of numbers, by the names of the examples."""
    columns = read_columns(file)
    where = str(file)
    value = pick(list(columns), column, (), option="the column of values", where=where)
    keys = (*NAME_COLUMNS, *ID_COLUMNS)
    name = pick(list(columns), None, keys, option="name", where=where)
    rows = rows_of(columns, where)
    names = distinct_names(columns[name], rows)
    values = []
    for row, text in enumerate(columns[value]):
        number = finite(text)
        if number is None or number < lowest:
            least = "" if lowest == -HIGHEST else f" of {lowest:g} or above"
            raise UsageError(
                f"{rows.at(row)} ({names[row]}) has {text!r:.50} in place of a finite "
                f"number{least} in column '{value}'."
            )
        values.append(number)

    def named(other: str) -> dict[str, str]:
        pairs = zip(names, columns.get(other, ()), strict=False)
        return {
            name: str(text) for name, text in pairs if text == text and text not in ("", None)
        }

    return Kept(dict(zip(names, values, strict=True)), named(CONTENT), named(LABEL), where)


def values_of(
    kept: Kept, images: Labelled, *, otherwise: float | None = None
) -> Float[Tensor, "N"]:
    """The value of each image, found by its name, or by its id where the table has ids.

    An image that the table does not know, one whose picture or class is no longer that of the
    table, and a row whose image is gone, are listed: in an error, or in a logged warning where
    ``otherwise`` says what the first two get.
    """
    names = _called(kept, images)
    now = fingerprints(images)
    new = [n for n in names if n not in kept.values]
    redrawn = [n for n, c in zip(names, now, strict=True) if kept.contents.get(n, c) != c]
    lookup = ClassLookup(images.classes)
    renamed = [
        name
        for name, label in zip(names, images.labels.tolist(), strict=True)
        if name in kept.labels and lookup.code(kept.labels[name]) != label
    ]
    gone = sorted(kept.values.keys() - set(names))
    faults = [
        _listed(new, "examples that it lacks"),
        _listed(redrawn, "examples whose picture has changed"),
        _listed(renamed, "examples whose label has changed"),
        _listed(gone, "rows whose example is gone"),
    ]
    problems = "; ".join(fault for fault in faults if fault)
    if problems and otherwise is None:
        raise UsageError(
            f"{kept.where} is not about these examples of {images.name}: {problems}. Say what "
            "examples without a value of their own get, to use the others all the same."
        )
    if problems:
        _LOG.warning(
            "%s: %s; %g in place of a value of their own.", kept.where, problems, otherwise
        )
    left_out = {*new, *redrawn, *renamed}
    found = [otherwise if n in left_out else kept.values[n] for n in names]
    return torch.tensor(found, dtype=torch.float32)


def _called(kept: Kept, images: Labelled) -> list[str]:
    # what a table calls each image: its name, or its id, counted from 0 or from 1
    names = images.names()
    numbers = {whole_number(key): key for key in kept.values}
    if None in numbers or len(numbers) < len(kept.values) or set(names) & kept.values.keys():
        return names
    own = Known.of(images).own_ids
    if own and (numbers.keys() >= set(own) or set(own) >= numbers.keys()):
        return [numbers.get(number, str(number)) for number in own]
    ids: list[int] = images.ids.tolist()
    try:
        base = _base_of({n for n in numbers if n is not None}, Known.of(images))
    except UsageError as error:
        raise UsageError(f"{kept.where}: {error}.") from error
    return [numbers.get(number + base, str(number + base)) for number in ids]


def _base_of(found: set[int], known: Known) -> int:
    # the number from which the ids of a table count that may lack some, and have others
    base = base_of(found, Known(known.ids))
    if base is not None or 0 in found:
        return base or 0
    rows = known.rows
    fitting = [n for n in (0, 1) if min(found) >= n and rows and max(found) < rows + n]
    if len(fitting) != 1:
        raise UsageError(f"its ids are of some examples alone, and {COUNTED_FROM}")
    return fitting[0]


def _listed(names: Sequence[str], what: str) -> str:
    if not names:
        return ""
    return f"{len(names)} {what} ({first_few(names)})"
