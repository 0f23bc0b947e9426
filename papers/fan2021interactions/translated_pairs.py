"""Sentence pairs to learn translation from: right, masked, or with another's translation."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from papers.data.text.encoded import EncodedPairs, encoded, masked, mispaired
from papers.data.text.pairs import read_pairs
from tutelage.errors import UsageError
from tutelage.validation.ranges import at_least_one, not_negative, parts
from tutelage_cli.data.local import local_folder
from tutelage_cli.data.text.vocabulary import Vocabulary

HEADS = 4
"""of attention, which share a state"""
SPOILT_AT = 1
"""seed of what is spoilt, one for all, since they begin with the same student"""


@dataclass(frozen=True)
class TranslationSettings:
    """How a translator learns; the defaults are the paper's, or ours where it says nothing."""

    data: str = "multi30k"
    """folder of sentence pairs in German and English, in ``$TUTELAGE_DATA`` or a path"""
    pairs: int | None = None
    """to train on; None for all, also below"""
    held_out: int | None = 500
    """right pairs that judge the teacher"""
    tested: int | None = None
    """test pairs"""
    words: int = 10_000
    """tokens of both languages together"""
    longest: int = 100
    """tokens of a sentence"""
    width: int = 512
    """of a state; twice that in feed-forward layers"""
    layers: int = 6
    """of encoder and of decoder"""
    dropout: float = 0.3
    """before the teacher comes; none afterwards"""
    first_steps: int = 40_000
    """of Adam, before the teacher comes"""
    first_batch: int = 160
    """pairs"""
    first_lr: float = 5e-4
    """of Adam, after its warm-up"""
    warm_up: int = 4000
    """steps in which Adam's learning rate rises; it falls with the root of their number then"""
    smoothing: float = 0.1
    """of labels, before the teacher comes"""
    steps: int = 4000
    """of momentum SGD, under the teacher"""
    batch: int = 160
    """pairs; held-out ones, too"""
    lr: float = 1e-3
    """of momentum SGD at its first step; falls to 0 in a line"""
    every: int = 20
    """student steps for each of the teacher's"""
    back: int = 2
    """student steps that it looks back over"""
    teacher_lr: float = 1e-3
    """of its Adam"""
    pair_rate: float = 0.1
    """share of pairs with masked tokens"""
    token_rate: float = 0.15
    """share of their tokens that are masked"""
    mispaired: float = 0.4
    """share of pairs that get another's translation"""
    beams: int = 5
    """of the search for translations"""

    def __post_init__(self) -> None:
        """Check what can be checked without the data."""
        sizes = ("pairs", "held_out", "tested", "words", "longest", "width", "layers", "beams")
        runs = ("first_steps", "first_batch", "warm_up", "steps", "batch", "every", "back")
        at_least_one(self, *sizes, *runs)
        not_negative(self, "first_lr", "lr", "teacher_lr")
        parts(self, "dropout", "smoothing", "pair_rate", "token_rate", "mispaired")
        if self.width % HEADS:
            raise UsageError(f"width must be a multiple of {HEADS}, got {self.width}.")
        if self.back > self.every:
            raise UsageError(
                f"back is {self.back}, but there are only {self.every} student steps for each "
                f"of the teacher's: give every {self.back} or more."
            )


class Material(NamedTuple):
    """Sentence pairs as tokens."""

    vocabulary: Vocabulary
    train: EncodedPairs
    """right"""
    held_out: EncodedPairs
    test: EncodedPairs
    references: list[str]
    """of the test pairs"""


def _folder(of: TranslationSettings) -> Path:
    if Path(of.data).expanduser().is_dir():
        return Path(of.data).expanduser()
    copy = local_folder(of.data)
    if copy is None:
        raise UsageError(
            f"{of.data} is not here: set TUTELAGE_DATA to a folder that holds it, or give "
            "--set data=FOLDER with sentence pairs in columns or files de and en."
        )
    return copy


@cache
def read_material(of: TranslationSettings) -> Material:
    """Read the pairs, in lower case as the paper's, once in each process."""
    parts = read_pairs(_folder(of), "de", "en")
    if parts.held_out is None or parts.test is None:
        raise UsageError(f"{of.data} lacks a held-out or a test part.")
    rows = [
        part.rows(torch.arange(len(part))[:number])
        for part, number in zip(parts, (of.pairs, of.held_out, of.tested), strict=True)
        if part is not None
    ]
    low = [part.lower() for part in rows]
    words = Vocabulary.learn([*low[0].sources, *low[0].targets], of.words)
    train, held_out, test = (encoded(part, words, of.longest) for part in low)
    return Material(words, train, held_out, test, list(low[2].targets))


def spoilt(
    noise: str, of: TranslationSettings, right: EncodedPairs
) -> tuple[EncodedPairs, Tensor]:
    """Spoil some pairs."""
    if noise == "masked":
        return masked(right, of.pair_rate, of.token_rate, seed=SPOILT_AT)
    if noise == "mispaired":
        return mispaired(right, of.mispaired, seed=SPOILT_AT)
    return right, torch.zeros(len(right), dtype=torch.bool)
