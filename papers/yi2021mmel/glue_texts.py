"""A task's texts as tokens, and their copies by a masked language model, made once."""

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
from papers.text_augment import SEARCHES, LanguageModel, Substitution, kept, padded
from papers.yi2021mmel.language_models import (
    Language,
    empty_model,
    learned_model,
    learned_tokenizer,
    masked_language_model,
    model_folder,
    with_new_head,
)
from tutelage.errors import require_known
from tutelage.models.sentence_vectors import sentence_vectors
from tutelage.storage.json_files import environment
from tutelage_cli.data.cache import cache_folder
from tutelage_cli.data.text.labelled import LabelledTexts, TextSplits, read_texts
from tutelage_cli.data.text.tokens import Tokens, tokenised

CHOSEN_AT, LEARNED_AT, REPLACED_AT = 0, 1, 2
"""seeds of the texts chosen, of the language model and of the words replaced: one for all, as
copies are made once"""
_ROWS = 256
"""sentences that an encoder is shown at once"""


@dataclass(frozen=True)
class Source(RecipeSettings):
    """Which texts and copies; the defaults are the paper's."""

    task: str = "sst2"  # folder of a GLUE task in ``$TUTELAGE_DATA``/glue, or a path
    examples: int | None = None  # training texts; None: all
    tested: int | None = None  # held-out texts; None: all
    longest: int = 128  # tokens of a text
    copies: int = 4  # of every text, beside itself
    share: Share = 0.4  # of tokens that are replaced
    search: str = "greedy"  # or ``beam``
    separate: bool = True  # whether the sentences of a pair are changed one by one
    model: str = "bert-base-uncased"
    """folder of a masked language model of transformers with its tokenizer, which is the
    student's, too, or its name in ``$TUTELAGE_DATA``; nothing: a small one that learns from the
    task's texts"""
    new_head: bool = False
    """whether the model gets a new head that fills gaps, and learns with it by ``language``"""
    language: Language = field(default_factory=Language)  # how it, or the small one, is trained
    vectors: bool = False
    """whether students are shown sentence vectors of the encoder in ``model``, as it is stored,
    in place of tokens"""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("Unknown search", self.search, SEARCHES)


class Material(NamedTuple):
    """Texts as tokens, or with their vectors float32 [N, D] in the place of these."""

    train: Tokens
    labels: Tensor
    ids: Tensor
    held_out: Tokens
    judging: Tensor  # labels of the held-out texts
    classes: int  # 1 for numbers
    tokenizer: Any


def _folder(task: str) -> Path:
    if (place := Path(task).expanduser()).is_dir():
        return place
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
    draws = torch.Generator().manual_seed(CHOSEN_AT)
    return texts.rows(torch.randperm(len(texts), generator=draws)[:size])


def bare(source: Source) -> Source:
    """The same texts, whatever their copies are like."""
    return replace(source, copies=1, share=0.0, search="greedy", separate=True)


def material(source: Source) -> Material:
    """The texts as students are shown them, read once in each process."""
    return _shown(bare(source))


@cache
def _shown(source: Source) -> Material:
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
    words = _language(source)[0]
    shown = (tokenised(part.sides, words, source.longest) for part in (train, held_out))
    first, second = shown
    return Material(
        first, train.labels, train.ids, second, held_out.labels, train.classes, words
    )


@cache
def copies_of(source: Source) -> Tensor:
    """Copies of the training texts [N, K, ...], made once and kept in the cache folder."""
    texts, (words, model) = _tokens(bare(source)), _language(bare(source))
    quick = torch.accelerator.current_accelerator(check_available=True)
    language = LanguageModel.of(model.to(quick or "cpu"), words)
    made = Substitution(language, source.copies, source.share, source.search, source.separate)
    folder = cache_folder() / "copies"
    copies = kept(made, *texts.train, seed=REPLACED_AT, folder=folder)
    if not source.vectors:
        return copies
    sides = texts.train.sides.repeat_interleave(source.copies, 0)
    return _vectors(source, Tokens(copies.flatten(0, 1), sides)).unflatten(0, copies.shape[:2])


def _vectors(source: Source, texts: Tokens) -> Tensor:
    # of a sentence; of a pair u and v: u, v, |u - v| and u v
    language = LanguageModel.of(nn.Identity(), _tokens(bare(source)).tokenizer)
    sides = [_alone(texts, side, language) for side in (1, 2) if (texts.sides == side).any()]
    stored: Any = Memory(cache_folder() / "recipes", verbose=0).cache(_encoded)
    facts = source.model, str(environment())
    found = [torch.from_numpy(stored(side.numpy(), *facts)) for side in sides]
    if len(found) == 1:
        return found[0]
    u, v = found
    return torch.cat([u, v, (u - v).abs(), u * v], 1)


def _alone(texts: Tokens, side: int, language: LanguageModel) -> Tensor:
    # one sentence of each text, as tokens [N, 3, L] of its own
    before, after = torch.tensor(language.before), torch.tensor(language.after)
    own = [ids[at == side] for ids, at in zip(texts.inputs[:, 0], texts.sides, strict=True)]
    rows = [torch.cat([before, ids, after]).long() for ids in own]
    ids, there = padded(rows, language.pad)
    return torch.stack([ids, torch.zeros_like(ids), there.long()], 1)


@torch.no_grad()
def _encoded(rows: np.ndarray, model: str, _releases: str) -> np.ndarray:
    # by the encoder, scaled so that each of D numbers has a second moment of about 1
    encoder, texts = sentence_vectors(model_folder(model)), torch.from_numpy(rows)
    found = torch.empty(len(texts), encoder.width)
    for some in texts[:, 2].sum(1).argsort().split(_ROWS):  # of like length
        found[some] = encoder(texts[some]) * encoder.width**0.5
    return found.numpy()


@cache
def _language(source: Source) -> tuple[Any, Any]:
    # tokenizer and masked language model
    if source.model and not source.new_head:
        return masked_language_model(source.model, source.longest)
    learned: Any = Memory(cache_folder() / "recipes", verbose=0).cache(_learned)
    folder = str(_folder(source.task))
    state = learned(source.task, folder, source.model, source.language, str(environment()))
    words, model = _new(source.model, _sentences(source.task, source.language), source.language)
    model.load_state_dict(state)
    return words, model.eval()


def _new(body: str, sentences: list[str], language: Language) -> tuple[Any, Any]:
    # before it has learned to fill gaps
    if body:
        return with_new_head(body, LEARNED_AT)
    words = learned_tokenizer(sentences, language.words)
    return words, empty_model(words, LEARNED_AT)


def _learned(
    task: str, _folder: str, body: str, language: Language, _releases: str
) -> dict[str, Tensor]:
    sentences = _sentences(task, language)
    words, model = _new(body, sentences, language)
    return learned_model(model, sentences, words, language, seed=LEARNED_AT).state_dict()


def _sentences(task: str, language: Language) -> list[str]:
    both = [text for side in _texts(task).train.sides for text in side]
    draws = torch.Generator().manual_seed(CHOSEN_AT)
    order = torch.randperm(len(both), generator=draws)[: language.sentences]
    return [both[place] for place in order.tolist()]
