"""Labelled texts held in memory, as words and as tokens."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.images import refuse_other_classes
from tutelage_cli.data.row_numbers import FIRST

BETWEEN = " | "
"""between the two sentences of a text where they are shown"""


@dataclass(frozen=True)
class TextSet:
    """N texts of one sentence or two, with a class each."""

    sides: tuple[tuple[str, ...], ...]
    """N sentences; where a text has two, N others"""
    tokens: Tensor
    """int32 [N, 3, L]: token ids, token types, and 1 where there is a token; L is 0 before the
    texts are tokenised"""
    labels: Tensor
    """int64 [N], each in 0..len(classes) - 1"""
    ids: Tensor
    """int64 [N]: row number in the source split, kept when rows are chosen or relabelled"""
    classes: tuple[str, ...]
    """the name of every class, in the order of the labels"""
    name: str
    """the data set's name"""
    words: int = 0
    """tokens there are"""

    called: tuple[str, ...] = ()
    """by id, not by place: the row of the source of each text; empty where it has
    no empty lines"""

    sources = ()  # texts have no files that could name them

    def __post_init__(self) -> None:
        """Check lengths, types and the range of the labels."""
        sizes = {len(self.labels), len(self.ids), len(self.tokens), *map(len, self.sides)}
        if len(sizes) > 1:
            raise UsageError(f"{self.name} has columns of {sorted(sizes)} rows; give as many.")
        for role in ("labels", "ids"):
            kind = getattr(self, role).dtype
            if kind != torch.int64:
                raise UsageError(f"{role} of {self.name} are {kind}; give torch.int64.")
        refuse_other_classes(self)

    def __len__(self) -> int:
        return len(self.labels)

    def names(self) -> list[str]:
        """The name of every text: its row in the source."""
        if not self.called:
            return [f"row {number + FIRST}" for number in self.ids.tolist()]
        return [self.called[number] for number in self.ids.tolist()]

    def shown(self) -> list[str]:
        """Every text as one string."""
        return [BETWEEN.join(text) for text in zip(*self.sides, strict=True)]

    def contents(self) -> Iterator[bytes]:
        """What makes a text another one than those before and after it."""
        for text in zip(*self.sides, strict=True):
            yield "\0".join(text).encode(errors="surrogatepass")

    def tensors(self) -> tuple[Tensor, ...]:
        """All that a student sees."""
        return self.tokens, self.labels, self.ids

    def rows(self, indices: Tensor) -> "TextSet":
        """The texts at the given places, in that order, with the ids they had."""
        places: list[int] = indices.tolist()
        return replace(
            self,
            sides=tuple(tuple(side[place] for place in places) for side in self.sides),
            tokens=self.tokens[indices],
            labels=self.labels[indices],
            ids=self.ids[indices],
        )

    def with_labels(self, labels: Tensor) -> "TextSet":
        """The same texts under other labels."""
        return replace(self, labels=labels)


class TextParts(NamedTuple):
    """The two parts of a data set of texts; both speak of the same classes."""

    train: TextSet
    """for learning"""
    test: TextSet
    """for the final figure only"""
    notes: tuple[str, ...] = ()
    """what is worth knowing about the source, a sentence each"""
