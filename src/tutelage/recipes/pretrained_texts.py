"""Masked language models and encoders from folders that ``save_pretrained`` wrote."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from tutelage.data.local import FOLDER, local_folder
from tutelage.errors import UsageError
from tutelage.models.text_classifier import TextClassifier, quietly, text_classifier


def model_folder(name: str) -> Path:
    """Where a model lies.

    Args:
        name: Its folder, or the name of one in ``$TUTELAGE_DATA``.

    Returns:
        That folder.

    Raises:
        UsageError: If there is none.
    """
    if (place := Path(name).expanduser()).is_dir():
        return place
    if (copy := local_folder(name)) is not None:
        return copy
    raise UsageError(
        f"the model {name} is not here: give --set source.model=FOLDER, a masked language "
        "model and its tokenizer as save_pretrained of transformers writes them, or set "
        f"{FOLDER} to a folder that holds them in {name}."
    )


def masked_language_model(name: str, longest: int) -> tuple[Any, Any]:
    """A tokenizer and a masked language model.

    Args:
        name: Of its folder, see ``model_folder``.
        longest: Tokens that a text may have.

    Returns:
        Both; the model in evaluation mode.

    Raises:
        UsageError: If the folder lacks either, they do not fit, or texts are too long.
    """
    from transformers import AutoModelForMaskedLM

    folder = model_folder(name)
    words = _tokenizer(folder)
    try:
        with quietly():
            model = AutoModelForMaskedLM.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UsageError(f"{folder} holds no masked language model: {_line(error)}") from error
    _refuse_other_tokens(folder, model, words)
    _refuse_short(folder, model.eval(), words, longest)
    return words, model.float()


def encoder(name: str, *, classes: int, dropout: float, words: Any) -> TextClassifier:
    """A classifier whose encoder is pretrained and whose last layer is new.

    Args:
        name: Of its folder, see ``model_folder``.
        classes: Columns of the output.
        dropout: Of hidden layers and attention.
        words: The tokenizer that made the texts.

    Returns:
        The classifier.

    Raises:
        UsageError: If the folder holds none, or one of other tokens.
    """
    folder = model_folder(name)
    if any(folder.glob("tokenizer*")) and _tokenizer(folder).get_vocab() != words.get_vocab():
        raise UsageError(
            f"the student {folder} has other tokens than the language model that makes copies: "
            "give --set source.model a folder with the student's own tokenizer."
        )
    made = text_classifier(str(folder), classes=classes, dropout=dropout)
    _refuse_other_tokens(folder, made.model, words)
    return made


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        with quietly():
            words = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise UsageError(f"{folder} holds no tokenizer: {_line(error)}") from error
    if len(words) <= len(set(words.all_special_ids)):  # what is made up where files are missing
        raise UsageError(f"{folder} holds no tokenizer, or one that knows no word.")
    return words


def _refuse_other_tokens(folder: Path, model: Any, words: Any) -> None:
    known = model.get_input_embeddings().num_embeddings
    if known < len(words):
        raise UsageError(
            f"{folder} holds a model of {known} tokens, but texts have up to {len(words)}: "
            "give --set source.model a folder with a model and its own tokenizer."
        )


@torch.no_grad()
def _refuse_short(folder: Path, model: Any, words: Any, longest: int) -> None:
    text = torch.full((1, longest), words.unk_token_id or 0)
    try:
        if words.model_max_length < longest:
            raise IndexError
        model(input_ids=text, attention_mask=torch.ones_like(text))
    except (IndexError, RuntimeError) as error:
        raise UsageError(
            f"{folder} takes no texts of {longest} tokens: give a smaller source.longest."
        ) from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
