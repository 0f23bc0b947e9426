"""Sequence classifiers of ``transformers`` as students: tokens to logits."""

import inspect
from pathlib import Path
from typing import Any

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


class TextClassifier(nn.Module):
    """Any sequence classifier of ``transformers``, or one that gives a number.

    Padding at the end, as long as all texts of a batch have it, is cut off; the rest is masked.

    Args:
        model: Such as ``BertForSequenceClassification``.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model: Any = model
        self._typed = takes_types(model)

    def forward(self, texts: Tensor) -> Tensor:
        """Logits, or a number.

        Args:
            texts: [B, 3, L]: token ids, token types, and 1 where there is a token.

        Returns:
            [B, classes]; [B, 1] for numbers.
        """
        return self.model(**arguments(texts, typed=self._typed)).logits


def arguments(texts: Tensor, *, typed: bool) -> dict[str, Tensor]:
    """What models of ``transformers`` are called with.

    Args:
        texts: [B, 3, L]: token ids, token types, and 1 where there is a token.
        typed: Whether the model knows token types.

    Returns:
        By name, [B, L'], without the padding that all texts have.
    """
    there = texts[:, 2].any(0).nonzero()
    length = int(there.max()) + 1 if len(there) else 1
    ids, types, mask = texts[:, :, :length].long().unbind(1)
    named = {"input_ids": ids, "attention_mask": mask}
    return named | {"token_type_ids": types} if typed else named


def takes_types(model: nn.Module) -> bool:
    """Whether a model tells the sentences of a pair apart by token types.

    Args:
        model: One of ``transformers``.

    Returns:
        Whether it takes two and more.
    """
    knows = "token_type_ids" in inspect.signature(model.forward).parameters
    return knows and getattr(getattr(model, "config", None), "type_vocab_size", 0) > 1


def text_classifier(source: str | dict[str, Any], *, classes: int) -> TextClassifier:
    """A student from a folder, or a new one.

    Args:
        source: A folder that ``save_pretrained`` wrote, whose last layer may be missing; or
            the settings of a ``BertConfig``, weights then drawn from torch's generator.
        classes: Columns of the output; 1 for numbers.

    Returns:
        The student.

    Raises:
        UsageError: If the folder is none, or holds no such model.
        MissingExtraError: If transformers is not installed.
    """
    try:
        from transformers import (
            AutoModelForSequenceClassification,
            BertConfig,
            BertForSequenceClassification,
        )
    except ImportError as error:
        raise MissingExtraError("transformers", "text") from error
    if isinstance(source, dict):
        settings: dict[str, Any] = {**source, "num_labels": classes}
        config = BertConfig(**settings)
        return TextClassifier(BertForSequenceClassification(config))
    if not Path(source).expanduser().is_dir():
        raise UsageError(f"'{source}' is no folder; give one that save_pretrained wrote.")
    try:
        model = AutoModelForSequenceClassification.from_pretrained(
            str(Path(source).expanduser()), num_labels=classes, local_files_only=True
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{source} holds no sequence classifier: {error}") from error
    return TextClassifier(model.float().train())
