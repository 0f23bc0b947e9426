"""Copies of texts in which a masked language model has replaced some tokens."""

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

__all__ = ["SEARCHES", "LanguageModel", "Substitution", "stored_copies"]

HEADS = {"bert": "cls", "roberta": "lm_head", "xlm-roberta": "lm_head"}
"""by ``config.model_type``: the submodule that maps hidden states to logits of all tokens"""


@dataclass(frozen=True)
class LanguageModel:
    """A masked language model of ``transformers``, with the special tokens of its tokenizer."""

    model: nn.Module
    """in evaluation mode"""
    mask_token: int
    pad_token: int
    special_tokens: tuple[int, ...]
    """which are never predicted"""
    prefix: tuple[int, ...]
    """special tokens before a single sentence"""
    suffix: tuple[int, ...]
    """special tokens after it"""
    tokens_per_pass: int = 2**14
    """upper bound on rows times length of one forward pass"""

    @classmethod
    def of(cls, model: nn.Module, tokenizer: Any) -> "LanguageModel":
        """From a model and its tokenizer."""
        for name in ("mask_token_id", "pad_token_id"):
            if getattr(tokenizer, name, None) is None:
                raise UsageError(
                    f"{type(tokenizer).__name__} has no {name.removesuffix('_id')}: give the "
                    "tokenizer of a masked language model."
                )
        (empty,) = tokenizer([""]).input_ids
        middle = (len(empty) + 1) // 2
        prefix, suffix = tuple(empty[:middle]), tuple(empty[middle:])
        special = tuple(sorted(set(tokenizer.all_special_ids)))
        mask, pad = tokenizer.mask_token_id, tokenizer.pad_token_id
        return cls(model.eval(), mask, pad, special, prefix, suffix)

    def sentences(self, ids: Int64[Tensor, "N L"], own: Tensor) -> list[Tensor]:
        """One sentence of each text, whose tokens ``own`` marks, between special tokens."""
        prefix, suffix = torch.tensor(self.prefix), torch.tensor(self.suffix)
        marked = [row[mask] for row, mask in zip(ids, own, strict=True)]
        return [torch.cat([prefix, sentence, suffix]).long() for sentence in marked]

    @torch.no_grad()
    def log_probs(
        self, ids: Int64[Tensor, "R L"], attended: Tensor, position: Int64[Tensor, "R"]
    ) -> Float[Tensor, "R V"]:
        """Log-probabilities of the token at one masked position of each row."""
        device = next(self.model.parameters()).device
        size = max(1, self.tokens_per_pass // max(1, ids.shape[1]))
        split = (column.split(size) for column in (ids, attended, position))
        parts = [
            self._log_probs(*(column.to(device) for column in part))
            for part in zip(*split, strict=True)
        ]
        return torch.cat(parts).cpu()

    def _log_probs(self, ids: Tensor, attended: Tensor, position: Tensor) -> Tensor:
        model: Any = self.model
        rows, attention_mask = torch.arange(len(ids), device=ids.device), attended.long()
        head = HEADS.get(getattr(getattr(model, "config", None), "model_type", ""))
        if head is None:
            output = model(input_ids=ids, attention_mask=attention_mask)
            logits = output.logits[rows, position]
        else:  # the head at one position: at all positions it takes most of the time
            output = model.base_model(input_ids=ids, attention_mask=attention_mask)
            logits = getattr(model, head)(output.last_hidden_state[rows, position])
        logits = logits.float()
        logits[:, list(self.special_tokens)] = -torch.inf
        return logits.log_softmax(1)


def fill_masked(
    model: LanguageModel,
    rows: Sequence[Tensor],
    positions: Sequence[Sequence[int]],
    copies: int,
    search: str,
) -> Tensor:
    """Fill the masked positions of every row in K ways, from left to right.

    The k-th copy has the k-th most likely token at the first position. At later ones ``greedy``
    takes the most likely token of each copy, and ``beam`` the K copies with the largest sum of
    log-probabilities, best first. Each log-probability is given the tokens filled so far, with
    the positions that are left still masked.

    Source: Yi et al. 2021, algorithm 2 and appendix C.
    """
    ids, attended = padded(rows, model.pad_token)
    for row, masked in enumerate(positions):
        ids[row, list(masked)] = model.mask_token
    filled = ids[:, None].repeat(1, copies, 1)
    total = torch.zeros(len(rows), copies)
    for turn in range(max(map(len, positions), default=0)):
        live = torch.tensor([n for n, masked in enumerate(positions) if len(masked) > turn])
        position = torch.tensor([positions[n][turn] for n in live.tolist()])
        beams = copies if turn else 1  # all copies are equal before the first position
        flat = filled[live, :beams].flatten(0, 1)
        repeated = attended[live].repeat_interleave(beams, 0)
        log_probs = model.log_probs(flat, repeated, position.repeat_interleave(beams))
        if turn and search == "greedy":
            filled[live, :, position] = log_probs.argmax(1).view(-1, copies)
            continue
        values, tokens = (x.view(len(live), beams, copies) for x in ranked(log_probs, copies))
        sums = (total[live, :beams, None] + values).flatten(1)
        total[live], best = sums.topk(copies, 1)
        parent = (best // copies)[:, :, None].expand(-1, -1, filled.shape[2])
        chosen = filled[live].gather(1, parent)
        position = position[:, None, None].expand(-1, copies, 1)
        tokens = tokens.flatten(1).gather(1, best)
        filled[live] = chosen.scatter(2, position, tokens[:, :, None])
    return filled


def ranked(log_probs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` most likely tokens, best first; the last is repeated if there are fewer."""
    finite = int(log_probs.isfinite().sum(1).min())
    values, tokens = log_probs.topk(min(count, finite), 1)
    order = torch.arange(count).clamp(max=tokens.shape[1] - 1)
    return values[:, order], tokens[:, order]


def padded(rows: Sequence[Tensor], pad_token: int) -> tuple[Tensor, Tensor]:
    """Token ids padded to one length, and which of them are attended to."""
    ids = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=pad_token)
    lengths = torch.tensor([len(row) for row in rows])
    attended = (torch.arange(ids.shape[1]) < lengths[:, None]) & (ids != pad_token)
    return ids, attended


SEARCHES = ("greedy", "beam")
"""how masked positions are filled"""
_ROWS = 256
"""sentences of similar length whose copies are made together"""


@dataclass(frozen=True)
class Substitution:
    """K copies of a text, made by masking random tokens and predicting them from left to right.

    ``round(share length)`` of a sentence's tokens are masked, the same in all copies.
    ``greedy``: the k-th copy gets the k-th most likely token at the first masked position, and
    at each later one the most likely token given those filled before. ``beam``: the K best
    fillings that beam search finds, best first. A sentence in which no token is masked, such as
    one of a single token, is unchanged.

    The masked positions depend on ``seed`` and the sentence's tokens alone, not on the batch.

    Source: Yi et al. 2021, Reweighting Augmented Samples by Minimizing the Maximal Expected
    Loss, algorithm 2 and appendix C. The order from left to right is our reading.
    """

    model: LanguageModel
    copies: int
    """K"""
    share: float = 0.4
    """of tokens that are replaced"""
    search: str = "greedy"
    """one of ``SEARCHES``"""
    separate: bool = True
    """whether the model is given each sentence of a pair alone; else both in one text"""

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise UsageError(f"copies is {self.copies}; allowed: 1 and above.")
        if not 0 <= self.share <= 1:
            raise UsageError(f"share is {self.share:g}; allowed: 0..1.")
        require_known("unknown search", self.search, SEARCHES)

    def __call__(self, inputs: Tensor, sides: Tensor, *, seed: int) -> Tensor:
        """Copies [N, K, 3, L] of texts [N, 3, L].

        Args:
            inputs: Token ids, token types and attention mask of each text.
            sides: The sentence, 1 or 2, to which each token belongs [N, L]; 0: special tokens
                and padding.
            seed: Seed of the masked positions.
        """
        ids, sides = inputs[:, 0].long().cpu(), sides.cpu()
        copies = inputs[:, None].expand(-1, self.copies, -1, -1).clone()
        for replaceable in self._replaceable(sides):
            filled = ids[:, None].repeat(1, self.copies, 1)
            order = replaceable.sum(1).argsort(stable=True)
            for rows in order.split(_ROWS):
                filled[rows] = self._filled(ids[rows], sides[rows], replaceable[rows], seed)
            changed = replaceable[:, None].expand_as(filled)
            copies[:, :, 0][changed] = filled[changed].to(copies.dtype).to(copies.device)
        return copies

    def _replaceable(self, sides: Tensor) -> list[Tensor]:
        # for each pass of the model: bool [N, L], the tokens that may be replaced in it
        if self.separate:
            return [sides == side for side in (1, 2) if bool((sides == side).any())]
        return [sides > 0] if bool((sides > 0).any()) else []

    def _filled(self, ids: Tensor, sides: Tensor, replaceable: Tensor, seed: int) -> Tensor:
        rows: list[Tensor] = list(ids)
        places = [side.nonzero().flatten().tolist() for side in sides]
        if self.separate:
            rows, places = self._sentences(ids, replaceable)
        chosen = [self._chosen(ids[n][replaceable[n]], seed) for n in range(len(ids))]
        positions = [[places[n][i] for i in chosen[n]] for n in range(len(ids))]
        filled = fill_masked(
            self.model, rows, positions, self.copies, self.search
        )  # [R, K, L']
        copies = ids[:, None].repeat(1, self.copies, 1)
        for n, masked in enumerate(positions):
            if masked:
                in_text = replaceable[n].nonzero().flatten()[torch.tensor(chosen[n])]
                copies[n][:, in_text] = filled[n][:, torch.tensor(masked)]
        return copies

    def _chosen(self, tokens: Tensor, seed: int) -> list[int]:
        # indices of the tokens that are masked
        count = round(self.share * len(tokens))
        if not count:
            return []
        content = zlib.crc32(tokens.numpy().tobytes())
        generator = torch.Generator().manual_seed(mixed_seed(seed, content))
        chosen = torch.randperm(len(tokens), generator=generator)[:count]
        return sorted(chosen.tolist())

    def _sentences(
        self, ids: Tensor, replaceable: Tensor
    ) -> tuple[list[Tensor], list[list[int]]]:
        # the sentence alone between special tokens, and the positions of its tokens there
        rows = self.model.sentences(ids, replaceable)
        first, behind = len(self.model.prefix), len(self.model.suffix)
        return rows, [list(range(first, len(row) - behind)) for row in rows]


def stored_copies(
    substitution: Substitution, inputs: Tensor, sides: Tensor, *, seed: int, folder: Path
) -> Tensor:
    """Copies of texts, read from a folder, or made and stored there.

    The file's name depends on the texts, the weights of the language model, the settings and
    the seed. A damaged file is written again.
    """
    file = folder / f"{_name(substitution, inputs, sides, seed)}.safetensors"
    if file.is_file():
        try:
            return load_file(file)["copies"]
        except (SafetensorError, KeyError):
            file.unlink(missing_ok=True)
    copies = substitution(inputs, sides, seed=seed).contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(file, save({"copies": copies}))
    return copies


def _name(substitution: Substitution, inputs: Tensor, sides: Tensor, seed: int) -> str:
    state = substitution.model.model.state_dict()
    weights = {name: tensor.float().cpu().numpy() for name, tensor in state.items()}
    own = substitution
    facts = own.copies, own.share, own.search, own.separate, seed
    return joblib.hash((facts, inputs.cpu().numpy(), sides.cpu().numpy(), weights)) or ""
