"""Masked language models and encoders from folders that ``save_pretrained`` wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
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
    text_classifier,
)
from tutelage.randomness import mixed_seed, seeded
from tutelage_cli.data.local import FOLDER
from tutelage_cli.data.text.tokens import tokenised

OTHER = "give --set source.model a folder with a model and its own tokenizer"


def model_folder(name: str) -> Path:
    """Where a model lies."""
    if name == MINILM:
        return minilm_folder()
    return find_folder(
        name,
        "give --set source.model=FOLDER, a masked language model and its tokenizer as "
        f"save_pretrained of transformers writes them, or set {FOLDER} to a folder that holds "
        f"them in {name}",
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


def with_new_head(name: str, seed: int) -> tuple[Any, Any]:
    """A tokenizer, and a stored BERT with a new head that fills gaps."""
    from transformers import BertForMaskedLM

    folder = model_folder(name)
    words = tokenizer_in(folder)
    try:
        with quietly(), seeded(mixed_seed(seed, 0)):
            model: Any = BertForMaskedLM.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UsageError(f"{folder} holds no BERT: {in_one_line(error)}") from error
    refuse_other_tokens(folder, model, len(words), OTHER)
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


SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
GAPS = 0.25  # share of tokens that are gaps in training
_WARM_UP = 100


@dataclass(frozen=True)
class Language(RecipeSettings):
    """How a language model is trained; the numbers are ours."""

    words: int = 4000  # WordPiece tokens
    steps: int = 800
    batch: int = 64
    lr: float = 1e-3
    longest: int = 32  # tokens of a sentence
    sentences: int = 20_000  # that it learns from, at most


def learned_tokenizer(sentences: Sequence[str], words: int) -> Any:
    """A WordPiece tokenizer in lower case."""
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
        from tokenizers.trainers import WordPieceTrainer
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        raise MissingExtraError("transformers", "text") from error
    made = Tokenizer(models.WordPiece(unk_token=SPECIAL[1]))  # pyright: ignore[reportCallIssue]
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = WordPieceTrainer(
        vocab_size=words, special_tokens=list(SPECIAL), show_progress=False
    )
    made.train_from_iterator(sentences, trainer)
    made.post_processor = processors.BertProcessing((SPECIAL[3], 3), (SPECIAL[2], 2))
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    special = dict(zip(names, SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)


def learned_model(
    model: Any, sentences: Sequence[str], tokenizer: Any, language: Language, *, seed: int
) -> nn.Module:
    """A BERT that has learned to fill gaps, in evaluation mode."""
    inputs = tokenised([sentences], tokenizer, language.longest).inputs.long()
    rule = AdamW(model.parameters(), language.lr, weight_decay=0.01)
    draws = torch.Generator().manual_seed(mixed_seed(seed, 1))
    special = torch.tensor(sorted(tokenizer.all_special_ids))
    with seeded(mixed_seed(seed, 2)):
        for step in range(language.steps):
            pace = min((step + 1) / _WARM_UP, 1.0) * max(0.1, 1 - step / language.steps)
            for group in rule.param_groups:
                group["lr"] = language.lr * pace
            rows = inputs[torch.randint(len(inputs), (language.batch,), generator=draws)]
            _step(model, rule, rows, special, tokenizer.mask_token_id, draws)
    return model.eval()


def empty_model(tokenizer: Any, seed: int) -> Any:
    """The same before it has learned anything."""
    from transformers import BertConfig, BertForMaskedLM

    with seeded(mixed_seed(seed, 0)):
        return BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **SMALL))


def _step(
    model: Any, rule: AdamW, rows: Tensor, special: Tensor, mask: int, draws: torch.Generator
) -> None:
    ids = rows[:, 0]
    gaps = (torch.rand(ids.shape, generator=draws) < GAPS) & ~torch.isin(ids, special)
    if not gaps.any():
        return
    masked = rows.clone()
    masked[:, 0] = ids.masked_fill(gaps, mask)
    called = arguments(masked, typed=False)
    length = called["input_ids"].shape[1]
    hidden = model.bert(**called).last_hidden_state
    logits = model.cls(hidden[gaps[:, :length]])  # words at gaps alone
    rule.zero_grad()
    F.cross_entropy(logits, ids[gaps]).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    rule.step()
