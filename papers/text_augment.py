"""Copies of texts whose words a masked language model has replaced."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import torch
from jaxtyping import Float, Int64
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from tutelage.errors import UsageError, require_known
from tutelage.randomness import mixed_seed
from tutelage.storage.atomic_files import write_atomically

__all__ = ["SEARCHES", "LanguageModel", "Substitution", "kept"]

HEADS = {"bert": "cls", "roberta": "lm_head", "xlm-roberta": "lm_head"}
"""by the model's type: its part from a state to the logits of words"""


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
    def of(cls, model: nn.Module, tokenizer: Any) -> "LanguageModel":
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
        return cls(model.eval(), mask, pad, never, before, after)

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
        model: Any = self.model
        rows, shown = torch.arange(len(ids), device=ids.device), there.long()
        head = HEADS.get(getattr(getattr(model, "config", None), "model_type", ""))
        if head is None:
            at = model(input_ids=ids, attention_mask=shown).logits[rows, gap]
        else:  # of the gap alone: all places times all words take most of the time
            states = model.base_model(input_ids=ids, attention_mask=shown).last_hidden_state
            at = getattr(model, head)(states[rows, gap])
        at = at.float()
        at[:, list(self.never)] = -torch.inf
        return at.log_softmax(1)


def fill_gaps(
    model: LanguageModel,
    rows: Sequence[Tensor],
    gaps: Sequence[Sequence[int]],
    copies: int,
    search: str,
) -> Tensor:
    """Fill the gaps of every row in K ways, from left to right.

    The k-th copy has the k-th most likely token in the first gap. In later ones ``greedy``
    takes the most likely token of each copy, and ``beam`` those K copies, best first, whose
    tokens have the largest sum of log-probabilities, each given the tokens before it and the
    gaps that are left.

    Source: Yi et al. 2021, algorithm 2 and appendix C.
    """
    ids, there = padded(rows, model.pad)
    for row, places in enumerate(gaps):
        ids[row, list(places)] = model.mask
    found = ids[:, None].repeat(1, copies, 1)
    total = torch.zeros(len(rows), copies)
    for turn in range(max(map(len, gaps), default=0)):
        live = torch.tensor([n for n, g in enumerate(gaps) if len(g) > turn])
        gap = torch.tensor([gaps[n][turn] for n in live.tolist()])
        kept = copies if turn else 1  # all are the same before the first gap is filled
        flat = found[live, :kept].flatten(0, 1)
        seen = there[live].repeat_interleave(kept, 0)
        guesses = model.guesses(flat, seen, gap.repeat_interleave(kept))
        if turn and search == "greedy":
            found[live, :, gap] = guesses.argmax(1).view(-1, copies)
            continue
        values, tokens = (x.view(len(live), kept, copies) for x in ranked(guesses, copies))
        sums = (total[live, :kept, None] + values).flatten(1)
        total[live], place = sums.topk(copies, 1)
        parent = (place // copies)[:, :, None].expand(-1, -1, found.shape[2])
        chosen = found[live].gather(1, parent)
        gap = gap[:, None, None].expand(-1, copies, 1)
        tokens = tokens.flatten(1).gather(1, place)
        found[live] = chosen.scatter(2, gap, tokens[:, :, None])
    return found


def ranked(guesses: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The most likely tokens, best first; the last one again where there are too few."""
    values, tokens = guesses.topk(min(count, int(guesses.isfinite().sum(1).min())), 1)
    order = torch.arange(count).clamp(max=tokens.shape[1] - 1)
    return values[:, order], tokens[:, order]


def padded(rows: Sequence[Tensor], pad: int) -> tuple[Tensor, Tensor]:
    """Rows of one length."""
    ids = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=pad)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]) & (ids != pad)


SEARCHES = ("greedy", "beam")
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
        require_known("unknown search", self.search, SEARCHES)

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
        rows: list[Tensor] = list(ids)
        places = [side.nonzero().flatten().tolist() for side in sides]
        if self.separate:
            rows, places = self._alone(ids, where)
        gaps = [self._gaps(ids[n][where[n]], seed) for n in range(len(ids))]
        holes = [[places[n][g] for g in gaps[n]] for n in range(len(ids))]
        copies = fill_gaps(self.model, rows, holes, self.copies, self.search)  # [R, K, L']
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

    def _alone(self, ids: Tensor, where: Tensor) -> tuple[list[Tensor], list[list[int]]]:
        before, after = torch.tensor(self.model.before), torch.tensor(self.model.after)
        rows = [torch.cat([before, ids[n][where[n]], after]).long() for n in range(len(ids))]
        return rows, [list(range(len(before), len(row) - len(after))) for row in rows]


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


def _name(made: Substitution, inputs: Tensor, sides: Tensor, seed: int) -> str:
    weights = {k: v.float().cpu().numpy() for k, v in made.model.model.state_dict().items()}
    facts = made.copies, made.share, made.search, made.separate, seed
    return joblib.hash((facts, inputs.cpu().numpy(), sides.cpu().numpy(), weights)) or ""
