"""Labelled texts held in memory, as words and as tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tutelage.data.order import BatchRequest
from tutelage.errors import UsageError
from tutelage_cli.data.columns import FIRST
from tutelage_cli.data.labelled import Labelled

BETWEEN = " | "
"""between the two sentences of a text where they are shown"""


@dataclass(frozen=True)
class TextSet(Labelled):
    """N texts of one sentence or two, with a class each."""

    example = "text"
    sides: tuple[tuple[str, ...], ...]
    """N sentences; where a text has two, N others"""
    tokens: Tensor
    """int32 [N, 3, L]: token ids, token types, and 1 where there is a token; L is 0 before the
    texts are tokenised"""
    labels: Tensor
    ids: Tensor
    classes: tuple[str, ...]
    name: str
    words: int = 0
    """tokens there are"""

    sources: tuple[str, ...] = ()
    """by id, not by place: the row of the source of each text; empty where it has
    no empty lines"""

    def __post_init__(self) -> None:
        """Check lengths, types and the range of the labels."""
        sizes = {len(self.labels), len(self.ids), len(self.tokens), *map(len, self.sides)}
        if len(sizes) > 1:
            raise UsageError(f"{self.name} has columns of {sorted(sizes)} rows; give as many.")
        self.require_labels(len(self.tokens))

    def names(self) -> list[str]:
        """The name of every text: its row in the source."""
        if not self.sources:
            return [f"row {number + FIRST}" for number in self.ids.tolist()]
        return super().names()

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

    def columns_with(self, other: "TextSet") -> dict[str, Any]:
        """The sentences and tokens of both."""
        parts, length = (self, other), max(self.tokens.shape[2], other.tokens.shape[2])
        tokens = [F.pad(part.tokens, (0, length - part.tokens.shape[2])) for part in parts]
        sides = tuple(a + b for a, b in zip(self.sides, other.sides, strict=True))
        return {"sides": sides, "tokens": torch.cat(tokens)}

    def other_rows(self, indices: Tensor) -> dict[str, Any]:
        """The sentences at the given places."""
        places: list[int] = indices.tolist()
        return {"sides": tuple(tuple(side[place] for place in places) for side in self.sides)}


def collate_texts(examples: TextSet, request: BatchRequest, device: torch.device) -> Tensor:
    """Collate texts to int64 [B, 3, L], L the longest length."""
    del device
    return without_padding(examples.tokens[request.rows].long())


def without_padding(tokens: Tensor) -> Tensor:
    """Tokens [B, 3, L] without the padding that all texts have."""
    return tokens[:, :, : max(1, int(tokens[:, 2].sum(1).max()))]
