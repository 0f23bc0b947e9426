"""Examples that are in several parts of the data, found by their content.

Two images are copies where their pixels are equal after decoding and scaling, whatever their
files are called; two texts where their letters are. Images that were stored anew with losses,
or cut in another way, are not found.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from tutelage_cli.data.labelled import Labelled

_SHOWN = 3
"""names that a note lists"""


def content_numbers(*parts: Labelled) -> tuple[Int64[Tensor, "_"], ...]:
    """A number for every example; two are equal if and only if their contents are."""
    known: dict[bytes, int] = {}
    return tuple(
        torch.tensor(
            [known.setdefault(_digest(content), len(known)) for content in part.contents()],
            dtype=torch.int64,
        )
        for part in parts
    )


class Overlap(NamedTuple):
    """Copies in two sets."""

    copies: int
    """examples of the first set that have a copy in the second"""
    names: Sequence[str]
    """of some of them"""

    @property
    def listed(self) -> str:
        """The names as a list in a sentence."""
        more = ", ..." if self.copies > len(self.names) else ""
        return f"{', '.join(self.names)}{more}"


def overlap(examples: Labelled, own: Tensor, others: Tensor) -> Overlap:
    """How many examples of a set have a copy in another one."""
    rows = torch.isin(own, others).nonzero().flatten()
    return Overlap(len(rows), of_rows(examples, rows[:_SHOWN]))


def of_rows(examples: Labelled, rows: Tensor) -> list[str]:
    """The names of some examples."""
    names = examples.names()
    return [names[row] for row in rows.tolist()]


def tested_on_training(train: Labelled, test: Labelled, own: Tensor, others: Tensor) -> str:
    """The warning about a test part that shares examples with the training part."""
    found = overlap(test, others, own)
    if not found.copies:
        return ""
    return (
        f"{found.copies} of the {len(test.labels)} test examples of {train.name} are copies of "
        f"training examples ({found.listed}): the test figure counts what was memorised. "
        "Take them out of one of the two parts."
    )


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
