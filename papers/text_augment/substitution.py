"""Copies of texts, a share of whose tokens a masked language model has replaced."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from papers.text_augment.beams import beams
from papers.text_augment.greedy import greedy
from papers.text_augment.language_model import LanguageModel
from tutelage.errors import UsageError, nearest
from tutelage.randomness import mixed_seed

SEARCHES = {"greedy": greedy, "beam": beams}
"""how gaps are filled"""
_ROWS = 256
"""sentences whose copies are made together, those of like length"""


@dataclass(frozen=True)
class Substitution:
    """K copies of a text, made by filling gaps at the same random places from left to right.

    ``round(share length)`` of a sentence's tokens become gaps. ``greedy``: the k-th copy gets
    the k-th most likely token in the first gap, and the most likely one, given all that is
    filled by then, in each later gap. ``beam``: the K best fillings that beam search finds,
    best first. A sentence with no token to replace, as one of a single token, stays as it is.

    The places depend on ``seed`` and the sentence's tokens alone, not on its neighbours.

    Source: Yi et al. 2021, Reweighting Augmented Samples by Minimizing the Maximal Expected
    Loss, algorithm 2 and appendix C. That gaps are filled from left to right is our reading.
    """

    model: LanguageModel
    copies: int
    """K"""
    share: float = 0.4
    """of tokens that are replaced"""
    search: str = "greedy"
    """one of ``SEARCHES``"""
    separate: bool = True
    """whether the model sees each sentence of a pair by itself; else both in one"""

    def __post_init__(self) -> None:
        """Check that this can be done; see the class."""
        if self.copies < 1:
            raise UsageError(f"copies is {self.copies}; allowed: 1 and above.")
        if not 0 <= self.share <= 1:
            raise UsageError(f"share is {self.share:g}; allowed: 0..1.")
        if self.search not in SEARCHES:
            raise UsageError(
                f"unknown search '{self.search}'. {nearest(self.search, SEARCHES)}"
            )

    def __call__(self, inputs: Tensor, sides: Tensor, *, seed: int) -> Tensor:
        """Copies of texts."""
        ids, sides = inputs[:, 0].long().cpu(), sides.cpu()
        found = inputs[:, None].expand(-1, self.copies, -1, -1).clone()
        for where in self._pieces(sides):
            filled = ids[:, None].repeat(1, self.copies, 1)
            order = where.sum(1).argsort(stable=True)
            for rows in order.split(_ROWS):
                filled[rows] = self._filled(ids[rows], sides[rows], where[rows], seed)
            taken = where[:, None].expand_as(filled)
            found[:, :, 0][taken] = filled[taken].to(found.dtype).to(found.device)
        return found

    def _pieces(self, sides: Tensor) -> list[Tensor]:
        # what the model sees at once: bool [N, L] of the tokens that may be replaced
        if self.separate:
            return [sides == side for side in (1, 2) if bool((sides == side).any())]
        return [sides > 0] if bool((sides > 0).any()) else []

    def _filled(self, ids: Tensor, sides: Tensor, where: Tensor, seed: int) -> Tensor:
        if self.separate:
            rows, places = self._alone(ids, where)
        else:
            rows, places = self._as_they_are(ids, sides)
        gaps = [self._gaps(ids[n][where[n]], seed) for n in range(len(ids))]
        holes = [[places[n][g] for g in gaps[n]] for n in range(len(ids))]
        fill = SEARCHES[self.search]
        copies = fill(self.model, rows, holes, self.copies)  # [R, K, L']
        found = ids[:, None].repeat(1, self.copies, 1)
        for n, taken in enumerate(holes):
            if taken:
                back = where[n].nonzero().flatten()[torch.tensor(gaps[n])]
                found[n][:, back] = copies[n][:, torch.tensor(taken)]
        return found

    def _gaps(self, tokens: Tensor, seed: int) -> list[int]:
        count = round(self.share * len(tokens))
        if not count:
            return []
        content = zlib.crc32(tokens.numpy().tobytes())
        draws = torch.Generator().manual_seed(mixed_seed(seed, content))
        chosen = torch.randperm(len(tokens), generator=draws)[:count]
        return sorted(chosen.tolist())

    def _alone(self, ids: Tensor, where: Tensor) -> tuple[list[Tensor], list[Sequence[int]]]:
        before, after = torch.tensor(self.model.before), torch.tensor(self.model.after)
        rows = [torch.cat([before, ids[n][where[n]], after]).long() for n in range(len(ids))]
        places = [range(len(before), len(row) - len(after)) for row in rows]
        return rows, list(places)

    def _as_they_are(
        self, ids: Tensor, sides: Tensor
    ) -> tuple[list[Tensor], list[Sequence[int]]]:
        return list(ids), [side.nonzero().flatten().tolist() for side in sides]
