"""A masked language model that fills gaps in rows of tokens, many rows at once."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tutelage.errors import UsageError


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
