"""What a folder that ``save_pretrained`` of ``transformers`` wrote must hold, checked."""

from pathlib import Path
from typing import Any

import torch

from tutelage.errors import MissingExtraError, UsageError
from tutelage.models.text_classifier import quietly


def tokenizer_in(folder: Path) -> Any:
    """The tokenizer of a folder.

    Args:
        folder: The folder.

    Returns:
        A tokenizer of ``transformers``.

    Raises:
        UsageError: If there is none, or one that knows no word.
        MissingExtraError: If ``transformers`` is not installed.
    """
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
    """Refuse a model that knows fewer tokens than texts have.

    Args:
        folder: Where it comes from.
        model: One of ``transformers``.
        words: Tokens there are.
        otherwise: What to do instead.

    Raises:
        UsageError: If it does.
    """
    known = model.get_input_embeddings().num_embeddings
    if known < words:
        raise UsageError(
            f"{folder} holds a model of {known} tokens, but texts have up to {words}: "
            f"{otherwise}."
        )


@torch.no_grad()
def refuse_short(folder: Path, model: Any, words: Any, longest: int, otherwise: str) -> None:
    """Refuse a model that takes no texts of some length.

    Args:
        folder: Where it comes from.
        model: One of ``transformers``, in evaluation mode.
        words: Its tokenizer.
        longest: Tokens of a text.
        otherwise: What to do instead.

    Raises:
        UsageError: If it does not.
    """
    text = torch.full((1, longest), words.unk_token_id or 0)
    try:
        if words.model_max_length >= longest:
            model(input_ids=text, attention_mask=torch.ones_like(text))
            return
    except (IndexError, RuntimeError):
        pass
    raise UsageError(f"{folder} takes no texts of {longest} tokens: {otherwise}.")


def in_one_line(error: Exception) -> str:
    """What an error says.

    Args:
        error: The error.

    Returns:
        Its message without line breaks.
    """
    return " ".join(str(error).split())
