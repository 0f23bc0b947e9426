"""Sentence vectors: the mean of a text encoder's last states over the tokens there are.

Source: Reimers and Gurevych 2019, Sentence-BERT, section 3, the pooling MEAN.
"""

import json
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, Integer
from safetensors import SafetensorError
from torch import Tensor, nn

from tutelage.errors import MissingExtraError, UsageError, in_one_line
from tutelage.models.text_classifier import arguments, quietly, takes_types

CLS, MEAN, MAX = "pooling_mode_cls_token", "pooling_mode_mean_tokens", "pooling_mode_max_tokens"
"""what the folder ``1_Pooling`` of sentence-transformers names"""


class SentenceVectors(nn.Module):
    """An encoder of ``transformers`` and a pooling of its last states.

    Args:
        model: The encoder.
        pooling: ``CLS``, ``MEAN`` or ``MAX``.
        normalised: Whether vectors are brought to length 1.
    """

    def __init__(self, model: Any, pooling: str = MEAN, *, normalised: bool = False) -> None:
        super().__init__()
        self.model: Any = model
        self.pooling, self.normalised = pooling, normalised
        self._typed = takes_types(model)

    def forward(self, texts: Integer[Tensor, "B 3 L"]) -> Float[Tensor, "B D"]:
        """The vectors of texts."""
        named = arguments(texts, typed=self._typed)
        states = self.model(**named).last_hidden_state
        there = named["attention_mask"].to(states.dtype)[..., None]
        if self.pooling == CLS:
            pooled = states[:, 0]
        elif self.pooling == MAX:
            pooled = states.masked_fill(there == 0, float("-inf")).amax(1)
        else:
            pooled = (states * there).sum(1) / there.sum(1).clamp(min=1)
        return F.normalize(pooled, dim=1) if self.normalised else pooled

    @property
    def width(self) -> int:
        """D."""
        return self.model.config.hidden_size


def sentence_vectors(folder: Path) -> SentenceVectors:
    """The encoder of a folder, with the pooling that sentence-transformers left beside it.

    Args:
        folder: What ``save_pretrained`` wrote, perhaps with ``modules.json`` and ``1_Pooling``.

    Returns:
        The encoder, in evaluation mode; the plain mean where the folder says nothing.

    Raises:
        UsageError: If it holds no encoder, or a pooling that is none of the three.
        MissingExtraError: If transformers is not installed.
    """
    try:
        from transformers import AutoModel
    except ImportError as error:
        raise MissingExtraError("transformers", "text") from error
    try:
        with quietly():
            model: Any = AutoModel.from_pretrained(str(folder), local_files_only=True)
        config = _json(folder / "1_Pooling" / "config.json")
        modules = _json(folder / "modules.json")
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise UsageError(f"{folder} holds no text encoder: {in_one_line(error)}") from error
    if getattr(model.config, "is_encoder_decoder", False):
        raise UsageError(f"{folder} holds an encoder-decoder; give an encoder such as BERT.")
    poolings = [key for key, on in (config or {MEAN: True}).items() if on is True]
    named = [key for key in poolings if key.startswith("pooling_mode_")]
    if len(named) != 1 or named[0] not in (CLS, MEAN, MAX):
        raise UsageError(
            f"{folder} pools by {', '.join(named)}; allowed: {CLS}, {MEAN}, {MAX}."
        )
    listed = modules if isinstance(modules, list) else []
    normalised = any(str(module.get("type", "")).endswith("Normalize") for module in listed)
    return SentenceVectors(model.float().eval(), named[0], normalised=normalised)


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
