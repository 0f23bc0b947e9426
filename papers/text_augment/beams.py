"""Gaps filled by beam search."""

from collections.abc import Sequence

import torch
from torch import Tensor

from papers.text_augment.greedy import padded, ranked, with_gaps
from papers.text_augment.language_model import LanguageModel


def beams(
    model: LanguageModel, rows: Sequence[Tensor], gaps: Sequence[Sequence[int]], copies: int
) -> Tensor:
    """The K best fillings of every row's gaps that beam search finds, best first.

    A filling is worth the sum of the log-probabilities with which its tokens were chosen, each
    given those before it and the gaps that are left.

    Source: Yi et al. 2021, appendix C.
    """
    ids, there = padded(rows, model.pad)
    with_gaps(ids, gaps, model.mask)
    found = ids[:, None].repeat(1, copies, 1)
    worth = torch.zeros(len(rows), copies)
    for turn in range(max(map(len, gaps), default=0)):
        live = torch.tensor([n for n, g in enumerate(gaps) if len(g) > turn])
        gap = torch.tensor([gaps[n][turn] for n in live.tolist()])
        kept = copies if turn else 1  # all are the same before the first gap is filled
        flat = found[live, :kept].flatten(0, 1)
        seen = there[live].repeat_interleave(kept, 0)
        guesses = model.guesses(flat, seen, gap.repeat_interleave(kept))
        values, tokens = (x.view(len(live), kept, copies) for x in ranked(guesses, copies))
        sums = (worth[live, :kept, None] + values).flatten(1)
        best, place = sums.topk(copies, 1)
        parent = place // copies
        chosen = found[live].gather(1, parent[:, :, None].expand(-1, -1, found.shape[2]))
        rows_of = torch.arange(len(live))[:, None]
        chosen[rows_of, torch.arange(copies), gap[:, None]] = tokens.flatten(1).gather(1, place)
        found[live], worth[live] = chosen, best
    return found
