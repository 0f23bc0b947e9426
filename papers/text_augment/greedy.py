"""Gaps filled one by one with the most likely token, the first gap of each copy otherwise."""

from collections.abc import Sequence

import torch
from torch import Tensor

from papers.text_augment.language_model import LanguageModel


def greedy(
    model: LanguageModel, rows: Sequence[Tensor], gaps: Sequence[Sequence[int]], copies: int
) -> Tensor:
    """Fill the gaps of every row in K ways.

    Source: Yi et al. 2021, algorithm 2.
    """
    ids, there = padded(rows, model.pad)
    with_gaps(ids, gaps, model.mask)
    found = ids[:, None].repeat(1, copies, 1)
    live = torch.tensor([n for n, g in enumerate(gaps) if g], dtype=torch.int64)
    if not len(live):
        return found
    first = torch.tensor([gaps[n][0] for n in live.tolist()])
    best = ranked(model.guesses(ids[live], there[live], first), copies)[1]
    found[live, :, first] = best
    for turn in range(1, max(map(len, gaps))):
        live = torch.tensor([n for n, g in enumerate(gaps) if len(g) > turn])
        gap = torch.tensor([gaps[n][turn] for n in live.tolist()])
        flat, seen = found[live].flatten(0, 1), there[live].repeat_interleave(copies, 0)
        guesses = model.guesses(flat, seen, gap.repeat_interleave(copies))
        found[live, :, gap] = guesses.argmax(1).view(-1, copies)
    return found


def ranked(guesses: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The most likely tokens, best first; the last one again where there are too few."""
    values, tokens = guesses.topk(min(count, int(guesses.isfinite().sum(1).min())), 1)
    lacking = count - tokens.shape[1]
    if lacking:
        values = torch.cat([values, values[:, -1:].expand(-1, lacking)], 1)
        tokens = torch.cat([tokens, tokens[:, -1:].expand(-1, lacking)], 1)
    return values, tokens


def padded(rows: Sequence[Tensor], pad: int) -> tuple[Tensor, Tensor]:
    """Rows of one length."""
    ids = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=pad)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]) & (ids != pad)


def with_gaps(ids: Tensor, gaps: Sequence[Sequence[int]], mask: int) -> None:
    """Put the token of a gap in its place; changes ``ids``."""
    for row, places in enumerate(gaps):
        if places:
            ids[row, torch.tensor(list(places))] = mask
