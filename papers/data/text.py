"""Sentence pairs for translation, and minibatches of pairs and of labelled texts."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage.types import Batch
from tutelage_cli.data.columns import pick
from tutelage_cli.data.parquet import parquet_splits
from tutelage_cli.data.parquet_files import open_parquet
from tutelage_cli.data.splits import HELD_OUT_NAMES
from tutelage_cli.data.text.vocabulary import END, IGNORED, MASK, PAD, START, Vocabulary


@dataclass(frozen=True)
class Pairs:
    """N sources with a translation each: sentences, or lists of tokens, ``END`` included."""

    sources: Sequence[Any]
    targets: Sequence[Any]
    ids: Tensor  # [N] int64: stable identities
    name: str  # for messages

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, which: Tensor) -> "Pairs":
        """Some of the pairs."""
        sources, targets = ([side[n] for n in which.tolist()] for side in self.sides)
        return Pairs(sources, targets, self.ids[which], self.name)

    def lower(self) -> "Pairs":
        """Sentences in lower case."""
        sources, targets = ([text.lower() for text in side] for side in self.sides)
        return replace(self, sources=sources, targets=targets)

    def encoded(self, vocabulary: Vocabulary, longest: int) -> "Pairs":
        """Sentences as tokens."""
        sources, targets = (vocabulary.encode(side, longest) for side in self.sides)
        return replace(self, sources=sources, targets=targets)

    @property
    def sides(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Sources and targets."""
        return self.sources, self.targets


class PairSplits(NamedTuple):
    """Sentence pairs by what they are for."""

    train: Pairs
    held_out: Pairs | None
    test: Pairs | None


def numbered(sources: Sequence[str | None], targets: Sequence[str | None], name: str) -> Pairs:
    """Sentence pairs whose ids are their places."""
    if len(sources) != len(targets):
        raise UsageError(
            f"{name} has {len(sources)} sentences in one language and {len(targets)} in the "
            "other; give one per sentence in both."
        )
    for side in (sources, targets):
        for row, text in enumerate(side):
            if not isinstance(text, str):
                raise UsageError(
                    f"{name}: row {row} has {text!r} in place of a sentence; drop that row, or "
                    "give it both sides."
                )
    return Pairs(tuple(sources), tuple(targets), torch.arange(len(sources)), name)


def read_pairs(folder: Path | str, source: str, target: str) -> PairSplits:
    """Sentence pairs from a folder, in one of two forms.

    * Parquet files by split, as the Hugging Face Hub has them, with two text columns, or one
      column ``translation`` that holds both by language.
    * Two plain text files for each split, one sentence a line: ``train.de``, ``train.en``.

    The held-out part is ``validation`` (or valid, val, dev), the test part ``test``.
    """
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise UsageError(f"'{folder}' is no folder; give one with sentence pairs.")
    files = parquet_splits(place)
    parts = (
        {name: _from_parquet(paths, source, target) for name, paths in files.items()}
        if files
        else _from_lines(place, source, target)
    )
    if "train" not in parts:
        raise UsageError(
            f"{place} has neither parquet files nor train.{source} and train.{target}; give a "
            "folder of parquet files, or of one text file per split and language."
        )
    held_out = next((parts[name] for name in HELD_OUT_NAMES if name in parts), None)
    return PairSplits(parts["train"], held_out, parts.get("test"))


def _from_parquet(files: Sequence[Path], source: str, target: str) -> Pairs:
    # pyarrow is an extra's, so that a table is Any here
    tables: list[Any] = [open_parquet(path) for path in files]
    names, where = tables[0].schema_arrow.names, str(files[0])
    if "translation" in names and source not in names:
        rows = [row for t in tables for row in t.read(["translation"]).to_pylist()]
        both = [_translation(row["translation"], source, target, where) for row in rows]
        return numbered([a for a, _ in both], [b for _, b in both], where)
    columns = [
        pick(names, wanted, (), option=option, where=where)
        for option, wanted in (("source", source), ("target", target))
    ]
    read = [t.read(columns).to_pydict() for t in tables]
    sides = [[text for table in read for text in table[column]] for column in columns]
    return numbered(sides[0], sides[1], where)


def _translation(
    pair: Mapping[str, str], source: str, target: str, where: str
) -> tuple[str, str]:
    if missing := {source, target} - set(pair):
        raise UsageError(
            f"{where} has translations in {', '.join(pair)}, not in {', '.join(missing)}."
        )
    return pair[source], pair[target]


def _from_lines(folder: Path, source: str, target: str) -> dict[str, Pairs]:
    parts = {}
    for file in sorted(folder.glob(f"*.{source}")):
        other = file.with_suffix(f".{target}")
        if not other.exists():
            raise UsageError(f"{file.name} has no {other.name} beside it in {folder}.")
        parts[file.stem] = numbered(lines(file), lines(other), str(file.with_suffix("")))
    return parts


def lines(file: Path) -> list[str]:
    """The lines of a text file, split at line feeds alone."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 ({error}); convert it.") from error
    return text.removesuffix("\n").split("\n") if text else []


def masked(
    pairs: Pairs, pair_rate: float, token_rate: float, *, seed: int
) -> tuple[Pairs, Tensor]:
    """Replace tokens of some pairs, on both sides, by ``<MASK>``; never their ``END``.

    A rate outside 0..1 is a UsageError.

    Source: Fan et al. 2021, Learning to Reweight with Deep Interactions, section 5, p and q.
    """
    _require_share(p=pair_rate, q=token_rate)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(len(pairs), generator=generator) < pair_rate

    def with_gaps(tokens: Sequence[int]) -> list[int]:
        hits = (torch.rand(len(tokens), generator=generator) < token_rate).tolist()
        return [MASK if hit and t != END else t for t, hit in zip(tokens, hits, strict=True)]

    sources, targets = (
        [with_gaps(tokens) if hit else tokens for tokens, hit in zip(side, chosen, strict=True)]
        for side in pairs.sides
    )
    return replace(pairs, sources=sources, targets=targets), chosen


def mispaired(pairs: Pairs, share: float, *, seed: int) -> tuple[Pairs, Tensor]:
    """Give some pairs the translation of another pair, drawn uniformly."""
    _require_share(share=share)
    count = len(pairs)
    if count < 2:
        raise UsageError(f"{pairs.name} has {count} pairs; mispairing takes two and more.")
    generator = torch.Generator().manual_seed(seed)
    hit = torch.randperm(count, generator=generator)[: round(share * count)]
    other = torch.randint(count - 1, (len(hit),), generator=generator)
    other += other >= hit  # any but its own
    targets = list(pairs.targets)
    for place, taken in zip(hit.tolist(), other.tolist(), strict=True):
        targets[place] = pairs.targets[taken]
    wrong = torch.zeros(count, dtype=torch.bool).index_fill(0, hit, True)
    return replace(pairs, targets=targets), wrong


def _require_share(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise UsageError(f"{name} is {share:g}; allowed: 0..1.")


_ORDER, _DRAW, _SORTED = 1, 2, 3
"""first part of a seed: keeps the streams of random numbers apart"""
_POOL = 20
"""batches among whose pairs those of like length are put together"""


class _SortedBatches(ABC):
    # minibatches of N examples of unlike length
    size: int
    seed: int
    whole_stream = _SORTED  # first part of the seeds of ``whole``

    @abstractmethod
    def _lengths(self) -> Tensor: ...

    @abstractmethod
    def _batch(self, rows: Tensor, seed: int) -> Batch: ...

    def _require_some(self, what: str) -> None:
        if not len(self._lengths()):
            raise UsageError(f"{what} to draw batches from.")
        if self.size < 1:
            raise UsageError(f"the batch size is {self.size}; allowed: 1 and above.")

    def __len__(self) -> int:
        return -(-len(self._lengths()) // self.size)

    def whole(self, size: int) -> Iterator[Batch]:
        """Every example once, from the shortest to the longest."""
        for place, rows in enumerate(self._lengths().argsort(stable=True).split(size)):
            yield self._batch(rows, mixed_seed(self.whole_stream, self.seed, place))


@dataclass(frozen=True)
class PairBatches(_SortedBatches):
    """The minibatches of N encoded pairs.

    ``inputs`` [B, 2, L] int64 are the source and what the decoder is given (``START`` and the
    target but its last token), padded with ``PAD``; ``targets`` [B, L] are the target's tokens,
    padded with ``IGNORED``. L is the longest side of the batch.
    """

    pairs: Pairs
    size: int  # pairs in a batch
    seed: int  # of every order and draw
    device: torch.device

    def __post_init__(self) -> None:
        self._require_some(f"{self.pairs.name} has no pairs left")

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Every pair once, with others of like length, in an order of this epoch's own."""
        seed = mixed_seed(_ORDER, self.seed, number)
        generator = torch.Generator().manual_seed(seed)
        order, lengths = torch.randperm(len(self.pairs), generator=generator), self._lengths()
        rows = [
            batch
            for pool in order.split(_POOL * self.size)
            for batch in pool[lengths[pool].argsort(stable=True)].split(self.size)
        ]
        for place in torch.randperm(len(rows), generator=generator).tolist()[start:]:
            yield self._batch(rows[place], mixed_seed(seed, place))

    def draw(self, number: int) -> Batch:
        """A batch drawn uniformly, without the same pair twice."""
        seed = mixed_seed(_DRAW, self.seed, number)
        generator = torch.Generator().manual_seed(seed)
        return self._batch(
            torch.randperm(len(self.pairs), generator=generator)[: self.size], seed
        )

    def _lengths(self) -> Tensor:
        sides = zip(*self.pairs.sides, strict=True)
        return torch.tensor([max(len(source), len(target)) for source, target in sides])

    def _batch(self, rows: Tensor, seed: int) -> Batch:
        pairs = self.pairs.rows(rows)
        shifted = [[START, *tokens[:-1]] for tokens in pairs.targets]
        length = max(map(len, [*pairs.sources, *pairs.targets]))
        inputs = torch.stack(
            [_padded(side, length, PAD) for side in (pairs.sources, shifted)], 1
        )
        targets, on = _padded(pairs.targets, length, IGNORED), self.device
        return Batch(inputs.to(on), targets.to(on), pairs.ids.to(on), seed)


def _padded(side: Sequence[Sequence[int]], length: int, filler: int) -> Tensor:
    return torch.tensor([[*tokens, *[filler] * (length - len(tokens))] for tokens in side])


@dataclass(frozen=True)
class TextBatches(_SortedBatches):
    """The minibatches of N texts: int64 [B, 3, L], see ``Tokens``, or vectors [B, D]."""

    inputs: Tensor  # int32 [N, 3, L], or float32 [N, D]
    labels: Tensor  # [N], or soft ones [N, C]
    ids: Tensor  # int64 [N]
    size: int  # texts in a batch
    seed: int  # of every order
    device: torch.device
    whole_stream = _DRAW

    def __post_init__(self) -> None:
        self._require_some("there are no texts")

    def epoch(self, number: int) -> Iterator[Batch]:
        """Every text once, in an order of this epoch's own."""
        seed = mixed_seed(_ORDER, self.seed, number)
        order = torch.randperm(len(self.ids), generator=torch.Generator().manual_seed(seed))
        for place, rows in enumerate(order.split(self.size)):
            yield self._batch(rows, mixed_seed(seed, place))

    def _lengths(self) -> Tensor:
        if self.inputs.is_floating_point():
            return torch.ones(len(self.inputs), dtype=torch.int64)
        return self.inputs[:, 2].sum(1)

    def _batch(self, rows: Tensor, seed: int) -> Batch:
        inputs, on = self.inputs[rows], self.device
        inputs = inputs if inputs.is_floating_point() else inputs.long()
        return Batch(inputs.to(on), self.labels[rows].to(on), self.ids[rows].to(on), seed)
