"""Masked language models and encoders: stored by ``save_pretrained``, or trained here."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.optim import AdamW

from papers.framework.settings import RecipeSettings
from papers.models.minilm import MINILM, minilm_folder
from papers.students import find_folder
from tutelage.errors import MissingExtraError, UsageError, in_one_line
from tutelage.models.pretrained import refuse_other_tokens, refuse_short, tokenizer_in
from tutelage.models.text_classifier import (
    SMALL,
    TextClassifier,
    arguments,
    quietly,
    refuse_incomplete,
    text_classifier,
)
from tutelage.randomness import mixed_seed, seeded
from tutelage_cli.data.local import FOLDER
from tutelage_cli.data.text.tokens import tokenised

OTHER = "give --set source.model a folder with a model and its own tokenizer"


def model_folder(name: str) -> Path:
    """The folder of a model: a path, a name in ``$TUTELAGE_DATA``, or ``MINILM``."""
    if name == MINILM:
        return minilm_folder()
    return find_folder(
        name,
        "give --set source.model=FOLDER, a masked language model and its tokenizer as "
        f"save_pretrained of transformers writes them, or set {FOLDER} to a folder that holds "
        f"them in {name}",
    )


def masked_language_model(name: str, longest: int) -> tuple[Any, Any]:
    """The tokenizer and the masked language model in a folder.

    Args:
        name: See ``model_folder``.
        longest: Tokens of the longest text; a model that takes fewer is refused.
    """
    from transformers import AutoModelForMaskedLM

    tokenizer, model, has_head = _loaded(AutoModelForMaskedLM, name, longest)
    if not has_head:
        raise UsageError(
            f"{model_folder(name)} holds an encoder without a masked-LM head: give --set "
            "source.new_head=true, which trains one (of a BERT), or another source.model."
        )
    return tokenizer, model


def with_new_head(name: str, longest: int, seed: int) -> tuple[Any, Any]:
    """The tokenizer of a stored BERT, and that BERT with a new masked-LM head.

    Args:
        name: See ``model_folder``.
        longest: Tokens of the longest text; a model that takes fewer is refused.
        seed: Of the head's weights.
    """
    from transformers import BertForMaskedLM, PreTrainedConfig

    folder = model_folder(name)
    try:
        model_type = PreTrainedConfig.get_config_dict(folder)[0].get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f"{folder} holds no model: {in_one_line(error)}") from error
    if model_type != "bert":
        raise UsageError(
            f"{folder} holds a model of type {model_type}; source.new_head needs a BERT: give "
            "another source.model."
        )
    with seeded(mixed_seed(seed, 0)):
        tokenizer, model, has_head = _loaded(BertForMaskedLM, name, longest)
    if has_head:
        raise UsageError(f"{folder} holds a masked-LM head: leave source.new_head out.")
    return tokenizer, model


def _loaded(model_class: Any, name: str, longest: int) -> tuple[Any, Any, bool]:
    # tokenizer and model of a folder, and whether the folder holds its head, too
    folder = model_folder(name)
    tokenizer = tokenizer_in(folder)
    try:
        with quietly():
            model, loaded = model_class.from_pretrained(
                str(folder), local_files_only=True, output_loading_info=True
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UsageError(
            f"{folder} holds no masked language model: {in_one_line(error)}"
        ) from error
    missing = loaded["missing_keys"]
    refuse_incomplete(model, missing, str(folder))
    refuse_other_tokens(folder, model, len(tokenizer), OTHER)
    shorter = "give a smaller source.longest and source.language.longest"
    refuse_short(folder, model.eval(), tokenizer, longest, shorter)
    has_head = all(key.startswith(f"{model.base_model_prefix}.") for key in missing)
    return tokenizer, model.float(), has_head


@cache
def folder_digest(name: str) -> str:
    """A digest of all files of a model, see ``model_folder``; read once in each process."""
    digest = hashlib.sha256()
    folder = model_folder(name)
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(str(file.relative_to(folder)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def encoder(name: str, *, classes: int, dropout: float, tokenizer: Any) -> TextClassifier:
    """A classifier with a pretrained encoder and a new last layer.

    Args:
        name: See ``model_folder``.
        classes: Outputs.
        dropout: Its probability in hidden layers and attention.
        tokenizer: That of the texts; an encoder with other tokens is refused.
    """
    folder = model_folder(name)
    if (
        any(folder.glob("tokenizer*"))
        and tokenizer_in(folder).get_vocab() != tokenizer.get_vocab()
    ):
        raise UsageError(
            f"the student {folder} has other tokens than the language model that makes copies: "
            "give --set source.model a folder with the student's own tokenizer."
        )
    classifier = text_classifier(str(folder), classes=classes, dropout=dropout)
    refuse_other_tokens(folder, classifier.model, len(tokenizer), OTHER)
    return classifier


SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MASKED = 0.25  # probability that a token is masked in training
_WARM_UP = 100


@dataclass(frozen=True)
class Language(RecipeSettings):
    """Training of a masked language model; the numbers are ours."""

    words: int = 4000  # WordPiece tokens of a tokenizer that is learned, too
    steps: int = 800
    batch: int = 64
    lr: float = 1e-3
    longest: int = 32  # tokens of a sentence
    sentences: int = 20_000  # of the task, at most


def learned_tokenizer(sentences: Sequence[str], words: int) -> Any:
    """A lower-case WordPiece tokenizer, learned from sentences.

    Args:
        sentences: Sentences.
        words: Tokens in the vocabulary.
    """
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
        from tokenizers.trainers import WordPieceTrainer
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        raise MissingExtraError("transformers", "text") from error
    wordpiece = Tokenizer(models.WordPiece(unk_token=SPECIAL[1]))  # pyright: ignore[reportCallIssue]
    wordpiece.normalizer = normalizers.BertNormalizer()
    wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = WordPieceTrainer(
        vocab_size=words, special_tokens=list(SPECIAL), show_progress=False
    )
    wordpiece.train_from_iterator(sentences, trainer)
    wordpiece.post_processor = processors.BertProcessing((SPECIAL[3], 3), (SPECIAL[2], 2))
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    special = dict(zip(names, SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=wordpiece, **special)


def learned_model(
    model: Any, sentences: Sequence[str], tokenizer: Any, language: Language, *, seed: int
) -> nn.Module:
    """Train a BERT by masked language modelling; returns it in evaluation mode."""
    inputs = tokenised([sentences], tokenizer, language.longest).inputs.long()
    optimizer = AdamW(model.parameters(), language.lr, weight_decay=0.01)
    generator = torch.Generator().manual_seed(mixed_seed(seed, 1))
    special = torch.tensor(sorted(tokenizer.all_special_ids))
    with seeded(mixed_seed(seed, 2)):
        for step in range(language.steps):
            warm_up = min((step + 1) / _WARM_UP, 1.0)
            for group in optimizer.param_groups:
                group["lr"] = language.lr * warm_up * max(0.1, 1 - step / language.steps)
            rows = inputs[torch.randint(len(inputs), (language.batch,), generator=generator)]
            _step(model, optimizer, rows, special, tokenizer.mask_token_id, generator)
    return model.eval()


def untrained_model(tokenizer: Any, seed: int) -> Any:
    """A small BERT with a masked-LM head, newly initialised."""
    from transformers import BertConfig, BertForMaskedLM

    with seeded(mixed_seed(seed, 0)):
        return BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **SMALL))


def _step(
    model: Any,
    optimizer: AdamW,
    rows: Tensor,
    special: Tensor,
    mask_token: int,
    generator: torch.Generator,
) -> None:
    ids = rows[:, 0]
    drawn = torch.rand(ids.shape, generator=generator) < MASKED
    masked = drawn & ~torch.isin(ids, special)
    if not masked.any():
        return
    inputs = rows.clone()
    inputs[:, 0] = ids.masked_fill(masked, mask_token)
    named = arguments(inputs, typed=False)
    length = named["input_ids"].shape[1]
    states = model.bert(**named).last_hidden_state
    logits = model.cls(states[masked[:, :length]])  # at masked positions alone
    optimizer.zero_grad()
    F.cross_entropy(logits, ids[masked]).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
