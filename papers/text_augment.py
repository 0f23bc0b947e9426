"""Copies of texts whose words a masked language model has replaced."""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from tutelage.errors import UsageError, nearest
from tutelage.randomness import mixed_seed
from tutelage.storage.atomic_files import write_atomically

__all__ = ["SEARCHES", "LanguageModel", "Substitution", "kept"]


@dataclass(frozen=True)
class LanguageModel:
    """Any masked language model of ``transformers``, with what its tokenizer says."""

    model: nn.Module
    """in evaluation mode"""
    mask: int
    """the token that stands for a gap"""
    pad: int
    never: tuple[int, ...]
    """special tokens, which fill no gap"""
    before: tuple[int, ...]
    """special tokens in front of a single sentence"""
    after: tuple[int, ...]
    """and behind it"""
    at_once: int = 2**14
    """tokens that the model sees in one pass; its output has as many rows"""

    @classmethod
    def of(cls, model: nn.Module, tokenizer: Any, *, at_once: int = 2**14) -> "LanguageModel":
        """A model and its tokenizer."""
        for name in ("mask_token_id", "pad_token_id"):
            if getattr(tokenizer, name, None) is None:
                raise UsageError(
                    f"{type(tokenizer).__name__} has no {name.removesuffix('_id')}: give the "
                    "tokenizer of a masked language model."
                )
        (around,) = tokenizer([""]).input_ids
        cut = len(around) // 2 + len(around) % 2
        before, after = tuple(around[:cut]), tuple(around[cut:])
        never = tuple(sorted(set(tokenizer.all_special_ids)))
        mask, pad = tokenizer.mask_token_id, tokenizer.pad_token_id
        return cls(model.eval(), mask, pad, never, before, after, at_once)

    @torch.no_grad()
    def guesses(
        self, ids: Int64[Tensor, "R L"], there: Tensor, gap: Int64[Tensor, "R"]
    ) -> Float[Tensor, "R V"]:
        """Log-probabilities of what fills one gap of each row."""
        device = next(self.model.parameters()).device
        size = max(1, self.at_once // max(1, ids.shape[1]))
        parts = [
            self._filled(*(column.to(device) for column in part))
            for part in zip(ids.split(size), there.split(size), gap.split(size), strict=True)
        ]
        return torch.cat(parts).cpu()

    def _filled(self, ids: Tensor, there: Tensor, gap: Tensor) -> Tensor:
        logits = self.model(input_ids=ids, attention_mask=there.long()).logits
        at = logits[torch.arange(len(ids), device=ids.device), gap].float()
        at[:, list(self.never)] = -torch.inf
        return at.log_softmax(1)


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


def kept(
    substitution: Substitution, inputs: Tensor, sides: Tensor, *, seed: int, folder: Path
) -> Tensor:
    """Copies of texts, from the folder where they were made before.

    The file's name depends on the texts, the weights of the language model, the settings and
    the seed. A broken file is written anew.
    """
    file = folder / f"{_name(substitution, inputs, sides, seed)}.safetensors"
    if file.is_file():
        try:
            return load_file(file)["copies"]
        except (SafetensorError, KeyError):
            file.unlink()
    copies = substitution(inputs, sides, seed=seed).contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(file, save({"copies": copies}))
    return copies


def _name(substitution: Substitution, inputs: Tensor, sides: Tensor, seed: int) -> str:
    made = substitution
    facts = made.copies, made.share, made.search, made.separate, seed
    found = hashlib.sha256(" ".join(map(str, facts)).encode())
    found.update(_bytes(inputs))
    found.update(_bytes(sides))
    found.update(_weights(substitution.model.model).encode())
    return found.hexdigest()[:32]


def _weights(model: nn.Module) -> str:
    found = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        found.update(_bytes(tensor.float()))
    return found.hexdigest()


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().numpy().tobytes()
