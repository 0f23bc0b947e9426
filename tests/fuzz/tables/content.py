"""What stands in a table, row by row: the slow reader's answer, known before it is written."""

import random
from typing import NamedTuple

from tests.fuzz.tables.situation import LABELS, Files

ROWS = {"train": 14, "test": 6}


class Row(NamedTuple):
    """One example."""

    number: int
    """no two rows of all parts have the same"""
    label: object
    """as written; None where it is missing"""


class Content(NamedTuple):
    """The rows of every part."""

    train: list[Row]
    test: list[Row]
    """empty where there is no such part"""


def content_of(f: Files) -> Content:
    """What is to be written, and found again."""
    draw, labels = random.Random(f.seed), LABELS[f.labels]
    train = _rows(draw, list(labels.values), ROWS["train"], 0)
    test: list[Row] = []
    if f.parts != "one":
        test = _rows(draw, list(labels.test or labels.values), ROWS["test"], ROWS["train"])
    if f.missing in ("one", "blanks", "skipped"):
        train[4] = train[4]._replace(label=None)
    if f.missing == "test":
        test[2] = test[2]._replace(label=None)
    if f.form == "no rows":
        train, test = [], []
    return Content(train, test)


def _rows(draw: random.Random, labels: list, count: int, first: int) -> list[Row]:
    chosen = [labels[n % len(labels)] for n in range(count)]
    draw.shuffle(chosen)
    return [Row(first + n, label) for n, label in enumerate(chosen)]


def name_of(label: object) -> str:
    """The class that a label names: numbers without a fraction of zero."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def colour_of(number: int) -> tuple[int, int, int]:
    """By which an example's image is known again."""
    return (10 * number + 5) % 256, (37 * number) % 256, (91 * number) % 256
