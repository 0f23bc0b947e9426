"""A task's texts as tokens, and their copies by a masked language model, made once."""

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from joblib import Memory
from torch import Tensor

from papers.framework.settings import RecipeSettings, Share
from papers.students import find_folder
from papers.text_augment import SEARCHES, LanguageModel, Substitution, kept
from papers.yi2021mmel.language_models import (
    Language,
    empty_model,
    learned_model,
    learned_tokenizer,
    masked_language_model,
)
from tutelage.errors import require_known
from tutelage.storage.json_files import environment
from tutelage_cli.data.cache import cache_folder
from tutelage_cli.data.text.labelled import LabelledTexts, TextSplits, read_texts
from tutelage_cli.data.text.tokens import Tokens, tokenised

CHOSEN_AT, LEARNED_AT, REPLACED_AT = 0, 1, 2
"""seeds of the texts chosen, of the language model and of the words replaced: one for all, as
copies are made once"""


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
    language: Language = field(default_factory=Language)  # how the small one is trained

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("Unknown search", self.search, SEARCHES)


class Material(NamedTuple):
    """Texts as tokens."""

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
    """The texts, read once in each process."""
    return _material(bare(source))


@cache
def _material(source: Source) -> Material:
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
    """Copies of the training texts, made once and kept in the user's cache folder."""
    texts, (words, model) = material(source), _language(bare(source))
    quick = torch.accelerator.current_accelerator(check_available=True)
    language = LanguageModel.of(model.to(quick or "cpu"), words)
    made = Substitution(language, source.copies, source.share, source.search, source.separate)
    folder = cache_folder() / "copies"
    return kept(made, *texts.train, seed=REPLACED_AT, folder=folder)


@cache
def _language(source: Source) -> tuple[Any, Any]:
    # tokenizer and masked language model
    if source.model:
        return masked_language_model(source.model, source.longest)
    learned: Any = Memory(cache_folder() / "recipes", verbose=0).cache(_learned)
    state = learned(source.task, str(_folder(source.task)), source.language, str(environment()))
    words = learned_tokenizer(_sentences(source.task, source.language), source.language.words)
    model = empty_model(words, LEARNED_AT)
    model.load_state_dict(state)
    return words, model.eval()


def _learned(task: str, _folder: str, language: Language, _releases: str) -> dict[str, Tensor]:
    sentences = _sentences(task, language)
    words = learned_tokenizer(sentences, language.words)
    return learned_model(sentences, words, language, seed=LEARNED_AT).state_dict()


def _sentences(task: str, language: Language) -> list[str]:
    both = [text for side in _texts(task).train.sides for text in side]
    draws = torch.Generator().manual_seed(CHOSEN_AT)
    order = torch.randperm(len(both), generator=draws)[: language.sentences]
    return [both[place] for place in order.tolist()]
