"""Texts as tokens of any fast tokenizer of ``transformers``, padded to one length."""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tutelage.errors import UsageError

log = logging.getLogger(__name__)


class Tokens(NamedTuple):
    """N texts of at most L tokens."""

    inputs: Tensor
    """int32 [N, 3, L]: token ids, token types, and 1 where there is a token, 0 for padding"""
    sides: Tensor
    """int8 [N, L]: 1 for tokens of the first sentence, 2 for those of the second, else 0"""


def tokenised(sides: Sequence[Sequence[str]], tokenizer: Any, longest: int) -> Tokens:
    """Texts as tokens.

    Text that resembles a special token is text. An empty text has special tokens only.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise UsageError(
            f"{type(tokenizer).__name__} is no fast tokenizer, which is needed to keep the "
            "sentences of a pair apart; give one such as AutoTokenizer loads."
        )
    if tokenizer.pad_token_id is None:
        raise UsageError(
            f"{type(tokenizer).__name__} has no padding token, so that texts of different "
            "length make no batch; set tokenizer.pad_token, for instance to its eos_token."
        )
    if not sides or not sides[0]:
        raise UsageError("no text to tokenise; give one and more.")
    texts = [list(side) for side in sides]
    kept = _encodings(tokenizer, texts, max_length=longest, truncation=True)
    if cut := sum(len(e.overflowing) > 0 for e in kept):
        log.warning("%d of %d texts are cut to %d tokens.", cut, len(kept), longest)
    length = max(1, *(len(e.ids) for e in kept))
    inputs = torch.zeros(len(kept), 3, length, dtype=torch.int32)
    inputs[:, 0] = tokenizer.pad_token_id
    places = torch.zeros(len(kept), length, dtype=torch.int8)
    for row, e in enumerate(kept):
        count = len(e.ids)
        inputs[row, :, :count] = torch.tensor([e.ids, e.type_ids, [1] * count])
        which = [0 if side is None else side + 1 for side in e.sequence_ids]
        places[row, :count] = torch.tensor(which, dtype=torch.int8)
    return Tokens(inputs, places)


def _encodings(tokenizer: Any, texts: list[list[str]], **options: Any) -> list[Any]:
    return tokenizer(*texts, split_special_tokens=True, **options).encodings
