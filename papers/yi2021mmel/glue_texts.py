"""A task's texts as tokens or sentence vectors, and copies made once by a masked LM."""

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib import Memory
from torch import Tensor, nn

from papers.framework.settings import RecipeSettings, Share
from papers.students import find_folder
from papers.text_augment import SEARCHES, LanguageModel, Substitution, padded, stored_copies
from papers.yi2021mmel.language_models import (
    Language,
    folder_digest,
    learned_model,
    learned_tokenizer,
    masked_language_model,
    model_folder,
    untrained_model,
    with_new_head,
)
from tutelage.errors import UsageError, require_known
from tutelage.models.sentence_vectors import sentence_vectors
from tutelage.storage.json_files import environment
from tutelage_cli.data.cache import cache_folder
from tutelage_cli.data.text.labelled import LabelledTexts, TextSplits, read_texts
from tutelage_cli.data.text.tokens import Tokens, tokenised

CHOSEN_AT, LEARNED_AT, REPLACED_AT = 0, 1, 2
"""seeds of the choice of texts, of the language model's training and of the masked positions;
they do not depend on the job's seed, since copies are made once"""
_ROWS = 256
"""sentences in one forward pass of an encoder"""


@dataclass(frozen=True)
class Source(RecipeSettings):
    """Texts of a task and how their copies are made; the defaults are the paper's."""

    task: str = "sst2"  # folder of a GLUE task in ``$TUTELAGE_DATA``/glue, or a path
    examples: int | None = None  # training texts; None: all
    tested: int | None = None  # held-out texts; None: all
    longest: int = 128  # tokens of a text
    copies: int = 4  # of every text, besides the text itself
    share: Share = 0.4  # of tokens that are replaced
    search: str = "greedy"  # or ``beam``
    separate: bool = True  # whether the model is given each sentence of a pair alone
    model: str = "bert-base-uncased"
    """masked language model of transformers, with the tokenizer of copies and students: a
    folder, its name in ``$TUTELAGE_DATA``, or ``MINILM``; empty: a small one, trained from
    scratch on the task's sentences"""
    new_head: bool = False
    """whether ``model`` is an encoder that gets a new masked-LM head and is trained with it"""
    language: Language = field(default_factory=Language)
    """training of the small model, or of the encoder with its new head"""
    vectors: bool = False
    """whether students get sentence vectors of the encoder in ``model``, as stored (before its
    training with a new head), in place of tokens"""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("Unknown search", self.search, SEARCHES)
        for name in ("vectors", "new_head"):
            if getattr(self, name) and not self.model:
                raise UsageError(f"source.{name} needs an encoder: give source.model.")


class Material(NamedTuple):
    """Inputs and labels: tokens, or in ``inputs`` sentence vectors, float32 [N, D]."""

    train: Tokens
    labels: Tensor
    ids: Tensor
    held_out: Tokens
    held_out_labels: Tensor
    classes: int  # 1: the labels are numbers (regression)
    tokenizer: Any


def _folder(task: str) -> Path:
    if (folder := Path(task).expanduser()).is_dir():
        return folder
    return find_folder(
        f"glue/{task}",
        f"set TUTELAGE_DATA to a folder that holds glue/{task}, or give a folder of parquet "
        "files with columns sentence, or sentence1 and sentence2, and label",
    )


@cache
def _texts(task: str) -> TextSplits:
    return read_texts(_folder(task))


def _limited(texts: LabelledTexts, size: int | None) -> LabelledTexts:
    if size is None or size >= len(texts):
        return texts
    generator = torch.Generator().manual_seed(CHOSEN_AT)
    return texts.rows(torch.randperm(len(texts), generator=generator)[:size])


def without_copies(source: Source) -> Source:
    """The same texts with one value for all settings of copies, as a key of caches."""
    return replace(source, copies=1, share=0.0, search="greedy", separate=True)


def material(source: Source) -> Material:
    """The inputs and labels of students, read once in each process."""
    return _material(without_copies(source))


@cache
def _material(source: Source) -> Material:
    texts = _tokens(source)
    if not source.vectors:
        return texts
    train, held_out = (
        part._replace(inputs=_vectors(source, part)) for part in (texts.train, texts.held_out)
    )
    return texts._replace(train=train, held_out=held_out)


@cache
def _tokens(source: Source) -> Material:
    train, held_out = _texts(source.task)
    train, held_out = _limited(train, source.examples), _limited(held_out, source.tested)
    tokenizer = _language_model(source)[0]
    train_tokens, held_out_tokens = (
        tokenised(part.sides, tokenizer, source.longest) for part in (train, held_out)
    )
    if not (train_tokens.sides > 0).any():
        raise UsageError(
            f"source.longest is {source.longest}: no token of a text fits beside the special "
            "ones; give more."
        )
    return Material(
        train_tokens,
        train.labels,
        train.ids,
        held_out_tokens,
        held_out.labels,
        train.classes,
        tokenizer,
    )


@cache
def copies_of(source: Source) -> Tensor:
    """Copies of the training texts [N, K, ...], made once and stored in the cache folder."""
    texts = _tokens(without_copies(source))
    tokenizer, model = _language_model(without_copies(source))
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    language = LanguageModel.of(model.to(accelerator or "cpu"), tokenizer)
    substitution = Substitution(
        language, source.copies, source.share, source.search, source.separate
    )
    folder = cache_folder() / "copies"
    copies = stored_copies(substitution, *texts.train, seed=REPLACED_AT, folder=folder)
    if not source.vectors:
        return copies
    sides = texts.train.sides.repeat_interleave(source.copies, 0)
    return _vectors(source, Tokens(copies.flatten(0, 1), sides)).unflatten(0, copies.shape[:2])


def _vectors(source: Source, texts: Tokens) -> Tensor:
    # sentence vectors [N, D]; of a pair with vectors u and v: u, v, |u - v| and u v
    language = LanguageModel.of(nn.Identity(), _tokens(without_copies(source)).tokenizer)
    count = len(_texts(source.task).train.sides)  # 2: the task's texts are pairs
    sides = [_sentences_of(texts, side, language) for side in range(1, count + 1)]
    encoded: Any = Memory(cache_folder() / "recipes", verbose=0).cache(_encoded)
    key = folder_digest(source.model), str(environment())
    vectors = [torch.from_numpy(encoded(side.numpy(), source.model, key)) for side in sides]
    if len(vectors) == 1:
        return vectors[0]
    u, v = vectors
    return torch.cat([u, v, (u - v).abs(), u * v], 1)


def _sentences_of(texts: Tokens, side: int, language: LanguageModel) -> Tensor:
    # the first or second sentence of each text, as a text of its own [N, 3, L]
    rows = language.sentences(texts.inputs[:, 0].long(), texts.sides == side)
    ids, attended = padded(rows, language.pad_token)
    return torch.stack([ids, torch.zeros_like(ids), attended.long()], 1)


@torch.no_grad()
def _encoded(rows: np.ndarray, model: str, _key: tuple[str, str]) -> np.ndarray:
    # by the encoder, scaled so that each of D numbers has a second moment of about 1
    encoder, texts = sentence_vectors(model_folder(model)), torch.from_numpy(rows)
    found = torch.empty(len(texts), encoder.width)
    for some in texts[:, 2].sum(1).argsort().split(_ROWS):  # of like length
        found[some] = encoder(texts[some]) * encoder.width**0.5
    return found.numpy()


@cache
def _language_model(source: Source) -> tuple[Any, Any]:
    # tokenizer and masked language model, trained where it has to be
    if source.model and not source.new_head:
        return masked_language_model(source.model, source.longest)
    trained: Any = Memory(cache_folder() / "recipes", verbose=0).cache(_trained_state)
    sentences = _sentences(source.task, source.language)
    facts = sentences, source.model, source.longest, source.language
    key = folder_digest(source.model) if source.model else "", str(environment())
    state = trained(*facts, key)
    tokenizer, model = _untrained(*facts)
    model.load_state_dict(state)
    return tokenizer, model.eval()


def _untrained(
    sentences: list[str], body: str, longest: int, language: Language
) -> tuple[Any, Any]:
    # tokenizer and masked language model before training; body: the stored encoder, if any
    if body:
        return with_new_head(body, max(longest, language.longest), LEARNED_AT)
    tokenizer = learned_tokenizer(sentences, language.words)
    return tokenizer, untrained_model(tokenizer, LEARNED_AT)


def _trained_state(
    sentences: list[str], body: str, longest: int, language: Language, _key: tuple[str, str]
) -> dict[str, Tensor]:
    tokenizer, model = _untrained(sentences, body, longest, language)
    return learned_model(model, sentences, tokenizer, language, seed=LEARNED_AT).state_dict()


def _sentences(task: str, language: Language) -> list[str]:
    sentences = [text for side in _texts(task).train.sides for text in side]
    generator = torch.Generator().manual_seed(CHOSEN_AT)
    order = torch.randperm(len(sentences), generator=generator)[: language.sentences]
    return [sentences[index] for index in order.tolist()]
