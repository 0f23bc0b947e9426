"""Masked language models and encoders from folders that ``save_pretrained`` wrote."""

from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from tutelage.errors import UsageError
from tutelage.models.pretrained import (
    in_one_line,
    refuse_other_tokens,
    refuse_short,
    tokenizer_in,
)
from tutelage.models.text_classifier import TextClassifier, quietly, text_classifier
from tutelage_cli.data.local import FOLDER, local_folder

OTHER = "give --set source.model a folder with a model and its own tokenizer"


def model_folder(name: str) -> Path:
    """Where a model lies."""
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
    """A tokenizer and a masked language model."""
    from transformers import AutoModelForMaskedLM

    folder = model_folder(name)
    words = tokenizer_in(folder)
    try:
        with quietly():
            model = AutoModelForMaskedLM.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UsageError(
            f"{folder} holds no masked language model: {in_one_line(error)}"
        ) from error
    refuse_other_tokens(folder, model, len(words), OTHER)
    shorter = "give a smaller source.longest"
    refuse_short(folder, model.eval(), words, longest, shorter)
    return words, model.float()


def encoder(name: str, *, classes: int, dropout: float, words: Any) -> TextClassifier:
    """A classifier whose encoder is pretrained and whose last layer is new."""
    folder = model_folder(name)
    if any(folder.glob("tokenizer*")) and tokenizer_in(folder).get_vocab() != words.get_vocab():
        raise UsageError(
            f"the student {folder} has other tokens than the language model that makes copies: "
            "give --set source.model a folder with the student's own tokenizer."
        )
    made = text_classifier(str(folder), classes=classes, dropout=dropout)
    refuse_other_tokens(folder, made.model, len(words), OTHER)
    return made
