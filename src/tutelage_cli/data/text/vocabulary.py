"""Subword tokens that both languages share: byte-level BPE."""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tutelage.errors import MissingExtraError, UsageError

try:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
except ImportError as error:
    raise MissingExtraError("tokenizers", "text") from error

PAD, START, END, MASK = range(4)
"""ids of the special tokens"""
SPECIAL = ("<pad>", "<s>", "</s>", "<MASK>")
IGNORED = -100
"""the target in place of padding, which no loss counts"""

_WORD_ENDS = re.compile(r"(?<=\S) (?=\S)")
"""where byte-level BPE begins a new word, so that each word need be encoded only once"""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Vocabulary:
    """Byte-level BPE: every text has tokens, none is unknown.

    Text that resembles a special token is text.

    Source: Sennrich et al. 2016; the joint one of Fan et al. 2021, section 5, has 10,000.
    """

    tokenizer: Tokenizer

    @classmethod
    def learn(cls, texts: Iterable[str], size: int) -> "Vocabulary":
        """Merge what occurs together most often."""
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        if size < len(SPECIAL) + len(alphabet):
            least = len(SPECIAL) + len(alphabet)
            raise UsageError(f"a vocabulary of {size} tokens; allowed: {least} and above.")
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=list(SPECIAL),
            initial_alphabet=alphabet,
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    def __post_init__(self) -> None:
        """Treat text that resembles a special token as text."""
        self.tokenizer.encode_special_tokens = True

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    def encode(self, texts: Sequence[str], longest: int) -> list[list[int]]:
        """Tokens of every text, ``END`` after the last."""
        if longest < 1:
            raise UsageError(f"longest is {longest}; allowed: 1 and above.")
        split = [_WORD_ENDS.split(text) for text in texts]
        words = dict.fromkeys(word for text in split for word in text)
        encoded = self.tokenizer.encode_batch_fast(list(words))
        ids_of = {word: found.ids for word, found in zip(words, encoded, strict=True)}
        tokens = [[token for word in text for token in ids_of[word]] for text in split]
        if cut := sum(len(ids) >= longest for ids in tokens):
            log.warning("%d of %d texts are cut to %d tokens.", cut, len(tokens), longest)
        return [[*ids[: longest - 1], END] for ids in tokens]

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """Texts of tokens, up to the first ``END``, special ones left out."""
        kept = [_before_end(ids) for ids in tokens]
        return [text.strip() for text in self.tokenizer.decode_batch(kept)]

    def save(self, file: Path) -> None:
        """Store it in the format of ``tokenizers``."""
        self.tokenizer.save(str(file))

    @classmethod
    def load(cls, file: Path) -> "Vocabulary":
        """Read what ``save`` stored."""
        try:
            tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises its own kind of plain Exception
            raise UsageError(f"{file} holds no vocabulary ({error}).") from error
        if [tokenizer.token_to_id(token) for token in SPECIAL] != list(range(len(SPECIAL))):
            raise UsageError(f"{file} lacks the special tokens {', '.join(SPECIAL)} in front.")
        return cls(tokenizer)


def _before_end(ids: Sequence[int]) -> list[int]:
    ids = list(ids)
    ids = ids[: ids.index(END)] if END in ids else ids
    return [token for token in ids if token >= len(SPECIAL)]
