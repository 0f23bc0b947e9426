"""What a folder that ``save_pretrained`` of ``transformers`` wrote must hold, checked."""

from pathlib import Path
from typing import Any

import torch

from tutelage.errors import MissingExtraError, UsageError, in_one_line
from tutelage.models.text_classifier import quietly


def tokenizer_in(folder: Path) -> Any:
    """The tokenizer of ``transformers`` in a folder; a ``UsageError`` if it knows no word."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise MissingExtraError("transformers", "text") from error
    try:
        with quietly():
            words = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise UsageError(f"{folder} holds no tokenizer: {in_one_line(error)}") from error
    if len(words) <= len(set(words.all_special_ids)):  # what is made up where files are missing
        raise UsageError(f"{folder} holds no tokenizer, or one that knows no word.")
    return words


def refuse_other_tokens(folder: Path, model: Any, words: int, otherwise: str) -> None:
    """Raise for a model that knows fewer tokens than texts have."""
    known = model.get_input_embeddings().num_embeddings
    if known < words:
        raise UsageError(
            f"{folder} holds a model of {known} tokens, but texts have up to {words}: "
            f"{otherwise}."
        )


@torch.no_grad()
def refuse_short(folder: Path, model: Any, words: Any, longest: int, otherwise: str) -> None:
    """Raise for a model, in evaluation mode, that takes no texts of ``longest`` tokens."""
    text = torch.full((1, longest), words.unk_token_id or 0)
    try:
        if words.model_max_length >= longest:
            model(input_ids=text, attention_mask=torch.ones_like(text))
            return
    except (IndexError, RuntimeError):
        pass
    raise UsageError(f"{folder} takes no texts of {longest} tokens: {otherwise}.")
