"""Sequence classifiers of ``transformers`` as students."""

import inspect
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor, nn

from tutelage.errors import MissingExtraError, UsageError

SMALL: dict[str, Any] = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "max_position_embeddings": 128,
}
"""a BERT that trains on a CPU"""
DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
)
"""what configurations of encoders call the dropout of hidden layers and of attention"""


class TextClassifier(nn.Module):
    """A sequence classifier, or regressor, of ``transformers``.

    Padding at the end, as long as all texts of a batch have it, is cut off; the rest is masked.

    Args:
        model: Such as ``BertForSequenceClassification``.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model: Any = model
        self._typed = takes_types(model)

    def forward(self, texts: Tensor) -> Tensor:
        """Logits, or a number."""
        if not len(texts):  # whose shape models cannot infer: of a process without rows
            return self.forward(texts.new_ones(1, *texts.shape[1:]))[:0]
        return self.model(**arguments(texts, typed=self._typed)).logits


def arguments(texts: Tensor, *, typed: bool) -> dict[str, Tensor]:
    """Keyword arguments of a model of ``transformers``."""
    there = texts[:, 2].any(0).nonzero()
    length = int(there.max()) + 1 if len(there) else 1
    ids, types, mask = texts[:, :, :length].long().unbind(1)
    named = {"input_ids": ids, "attention_mask": mask}
    return named | {"token_type_ids": types} if typed else named


def takes_types(model: nn.Module) -> bool:
    """Whether a model takes token types."""
    knows = "token_type_ids" in inspect.signature(model.forward).parameters
    return knows and getattr(getattr(model, "config", None), "type_vocab_size", 0) > 1


def text_classifier(
    source: str | dict[str, Any], *, classes: int, dropout: float | None = None
) -> TextClassifier:
    """A student loaded from a folder, or a new BERT.

    Args:
        source: A folder that ``save_pretrained`` of transformers wrote, whose last layer is
            replaced; or the settings of a ``BertConfig``, for a network with new weights.
        classes: Their number.
        dropout: The probability of all dropout layers; as the settings have it if None.

    Returns:
        A student of inputs [B, 3, L]: token ids, token types and the attention mask.

    Raises:
        UsageError: If the folder holds no sequence classifier.
        MissingExtraError: If transformers is not installed.
    """
    try:
        from transformers import (
            AutoConfig,
            AutoModelForSequenceClassification,
            BertConfig,
            BertForSequenceClassification,
        )
    except ImportError as error:
        raise MissingExtraError("transformers", "text") from error
    if isinstance(source, dict):
        settings: dict[str, Any] = {**source, "num_labels": classes}
        config = _with_dropout(BertConfig(**settings), dropout)
        return TextClassifier(BertForSequenceClassification(config))
    place = str(Path(source).expanduser())
    if not Path(place).is_dir():
        raise UsageError(f"'{source}' is no folder; give one that save_pretrained wrote.")
    try:
        with quietly():
            config = AutoConfig.from_pretrained(place, num_labels=classes)
            found: Any = AutoModelForSequenceClassification.from_pretrained(
                place,
                config=_with_dropout(config, dropout),
                local_files_only=True,
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UsageError(
            f"{source} holds no sequence classifier: {' '.join(str(error).split())}"
        ) from error
    model, loaded = found
    refuse_incomplete(model, loaded["missing_keys"], source)
    return TextClassifier(model.float().train())


@contextmanager
def quietly() -> Iterator[None]:
    """Silence progress bars and warnings of ``transformers`` inside."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _with_dropout(config: Any, dropout: float | None) -> Any:
    for name in DROPOUTS if dropout is not None else ():
        if hasattr(config, name):
            setattr(config, name, dropout)
    return config


def refuse_incomplete(model: Any, missing: Collection[str], source: str) -> None:
    """Refuse a folder that lacks weights of the encoder; other parts may be new."""
    # the pooler is the classifier's, as models that only fill gaps have none
    inside = f"{model.base_model_prefix}."
    lacks = sorted(k for k in missing if k.startswith(inside) and "pooler" not in k)
    if lacks:
        raise UsageError(
            f"{source} lacks {len(lacks)} weights of its encoder, such as {lacks[0]}; give a "
            "folder that save_pretrained wrote for a model of this kind."
        )
