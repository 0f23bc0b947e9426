"""Sentence pairs as tokens, and the ways in which they are spoilt to see who notices."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from papers.data.text.pairs import SentencePairs
from tutelage.errors import UsageError
from tutelage_cli.data.text.vocabulary import END, MASK, Vocabulary


@dataclass(frozen=True)
class EncodedPairs:
    """N pairs of token lists, ``END`` included."""

    sources: Sequence[Sequence[int]]
    targets: Sequence[Sequence[int]]
    ids: Tensor
    """[N] int64"""
    name: str

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, which: Tensor) -> "EncodedPairs":
        """Some of the pairs."""
        places: list[int] = which.tolist()
        sources = [self.sources[n] for n in places]
        targets = [self.targets[n] for n in places]
        return EncodedPairs(sources, targets, self.ids[which], self.name)


def encoded(pairs: SentencePairs, vocabulary: Vocabulary, longest: int) -> EncodedPairs:
    """Pairs as tokens."""
    sources, targets = (vocabulary.encode(s, longest) for s in (pairs.sources, pairs.targets))
    return EncodedPairs(sources, targets, pairs.ids, pairs.name)


def masked(
    pairs: EncodedPairs, pair_rate: float, token_rate: float, *, seed: int
) -> tuple[EncodedPairs, Tensor]:
    """Replace tokens of some pairs, on both sides, by ``<MASK>``; never their ``END``.

    A rate outside 0..1 is a UsageError.

    Source: Fan et al. 2021, Learning to Reweight with Deep Interactions, section 5, p and q.
    """
    _require_share(p=pair_rate, q=token_rate)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(len(pairs), generator=generator) < pair_rate

    def spoilt(side: Sequence[Sequence[int]]) -> list[Sequence[int]]:
        return [
            _masked(tokens, token_rate, generator) if hit else tokens
            for tokens, hit in zip(side, chosen.tolist(), strict=True)
        ]

    return replace(pairs, sources=spoilt(pairs.sources), targets=spoilt(pairs.targets)), chosen


def _masked(tokens: Sequence[int], rate: float, generator: torch.Generator) -> list[int]:
    hits = (torch.rand(len(tokens), generator=generator) < rate).tolist()
    return [MASK if hit and t != END else t for t, hit in zip(tokens, hits, strict=True)]


def mispaired(pairs: EncodedPairs, share: float, *, seed: int) -> tuple[EncodedPairs, Tensor]:
    """Give some pairs the translation of another pair, drawn uniformly."""
    _require_share(share=share)
    count = len(pairs)
    if count < 2:
        raise UsageError(f"{pairs.name} has {count} pairs; mispairing takes two and more.")
    generator = torch.Generator().manual_seed(seed)
    hit = torch.randperm(count, generator=generator)[: round(share * count)]
    other = torch.randint(count - 1, (len(hit),), generator=generator)
    other += other >= hit  # any but its own
    targets = list(pairs.targets)
    for place, taken in zip(hit.tolist(), other.tolist(), strict=True):
        targets[place] = pairs.targets[taken]
    wrong = torch.zeros(count, dtype=torch.bool)
    wrong[hit] = True
    return replace(pairs, targets=targets), wrong


def _require_share(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise UsageError(f"{name} is {share:g}; allowed: 0..1.")
