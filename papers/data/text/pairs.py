"""Sentence pairs: a text and its translation, with an id that stays with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.columns import pick
from tutelage_cli.data.parquet import open_parquet, parquet_splits
from tutelage_cli.data.splits import HELD_OUT_NAMES
from tutelage_cli.data.text.vocabulary import END, MASK, Vocabulary


@dataclass(frozen=True)
class SentencePairs:
    """N texts with a translation each."""

    sources: Sequence[str]  # N texts
    targets: Sequence[str]  # N translations
    ids: Tensor  # [N] int64: stable identities
    name: str  # for messages

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, which: Tensor) -> "SentencePairs":
        """Some of the pairs."""
        places: list[int] = which.tolist()
        sources = [self.sources[n] for n in places]
        targets = [self.targets[n] for n in places]
        return SentencePairs(sources, targets, self.ids[which], self.name)

    def lower(self) -> "SentencePairs":
        """The pairs in lower case."""
        sources, targets = ([text.lower() for text in s] for s in (self.sources, self.targets))
        return SentencePairs(sources, targets, self.ids, self.name)


class PairSplits(NamedTuple):
    """Sentence pairs by what they are for."""

    train: SentencePairs
    held_out: SentencePairs | None
    test: SentencePairs | None


def numbered(
    sources: Sequence[str | None], targets: Sequence[str | None], name: str
) -> SentencePairs:
    """Pairs whose ids are their places."""
    if len(sources) != len(targets):
        raise UsageError(
            f"{name} has {len(sources)} sentences in one language and {len(targets)} in the "
            "other; give one per sentence in both."
        )
    ids = torch.arange(len(sources))
    return SentencePairs(_whole(sources, name), _whole(targets, name), ids, name)


def _whole(side: Sequence[str | None], name: str) -> tuple[str, ...]:
    kept = tuple(text for text in side if isinstance(text, str))
    if len(kept) < len(side):
        row = next(n for n, text in enumerate(side) if not isinstance(text, str))
        raise UsageError(
            f"{name}: row {row} has {side[row]!r} in place of a sentence; drop that row, or "
            "give it both sides."
        )
    return kept


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
        {name: _of_parquet(paths, source, target) for name, paths in files.items()}
        if files
        else _of_lines(place, source, target)
    )
    if "train" not in parts:
        raise UsageError(
            f"{place} has neither parquet files nor train.{source} and train.{target}; give a "
            "folder of parquet files, or of one text file per split and language."
        )
    held_out = next((parts[name] for name in HELD_OUT_NAMES if name in parts), None)
    return PairSplits(parts["train"], held_out, parts.get("test"))


def _of_parquet(files: Sequence[Path], source: str, target: str) -> SentencePairs:
    # pyarrow is an extra's, so that a table is Any here
    tables: list[Any] = [open_parquet(path) for path in files]
    names, where = tables[0].schema_arrow.names, str(files[0])
    if "translation" in names and source not in names:
        rows = [row for t in tables for row in t.read(["translation"]).to_pylist()]
        both = [_spoken(row["translation"], source, target, where) for row in rows]
        return numbered([a for a, _ in both], [b for _, b in both], where)
    columns = [
        pick(names, wanted, (), option=option, where=where)
        for option, wanted in (("source", source), ("target", target))
    ]
    read = [t.read(columns).to_pydict() for t in tables]
    sides = [[text for table in read for text in table[column]] for column in columns]
    return numbered(sides[0], sides[1], where)


def _spoken(pair: Mapping[str, str], source: str, target: str, where: str) -> tuple[str, str]:
    if missing := {source, target} - set(pair):
        raise UsageError(
            f"{where} has translations in {', '.join(pair)}, not in {', '.join(missing)}."
        )
    return pair[source], pair[target]


def _of_lines(folder: Path, source: str, target: str) -> dict[str, SentencePairs]:
    parts = {}
    for file in sorted(folder.glob(f"*.{source}")):
        other = file.with_suffix(f".{target}")
        if not other.exists():
            raise UsageError(f"{file.name} has no {other.name} beside it in {folder}.")
        sides = [lines(side) for side in (file, other)]
        parts[file.stem] = numbered(sides[0], sides[1], str(file.with_suffix("")))
    return parts


def lines(file: Path) -> list[str]:
    """The lines of a text file, split at line feeds alone."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 ({error}); convert it.") from error
    return text.removesuffix("\n").split("\n") if text else []


@dataclass(frozen=True)
class EncodedPairs:
    """N pairs of token lists, ``END`` included."""

    sources: Sequence[Sequence[int]]
    targets: Sequence[Sequence[int]]
    ids: Tensor  # [N] int64
    name: str

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, which: Tensor) -> "EncodedPairs":
        """Some of the pairs."""
        places: list[int] = which.tolist()
        sources = [self.sources[n] for n in places]
        targets = [self.targets[n] for n in places]
        return EncodedPairs(sources, targets, self.ids[which], self.name)


def encoded(pairs: SentencePairs, vocabulary: Vocabulary, longest: int) -> EncodedPairs:
    """Pairs as tokens."""
    sources, targets = (vocabulary.encode(s, longest) for s in (pairs.sources, pairs.targets))
    return EncodedPairs(sources, targets, pairs.ids, pairs.name)


def masked(
    pairs: EncodedPairs, pair_rate: float, token_rate: float, *, seed: int
) -> tuple[EncodedPairs, Tensor]:
    """Replace tokens of some pairs, on both sides, by ``<MASK>``; never their ``END``.

    A rate outside 0..1 is a UsageError.

    Source: Fan et al. 2021, Learning to Reweight with Deep Interactions, section 5, p and q.
    """
    _require_share(p=pair_rate, q=token_rate)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(len(pairs), generator=generator) < pair_rate

    def spoilt(side: Sequence[Sequence[int]]) -> list[Sequence[int]]:
        return [
            _masked(tokens, token_rate, generator) if hit else tokens
            for tokens, hit in zip(side, chosen.tolist(), strict=True)
        ]

    return replace(pairs, sources=spoilt(pairs.sources), targets=spoilt(pairs.targets)), chosen


def _masked(tokens: Sequence[int], rate: float, generator: torch.Generator) -> list[int]:
    hits = (torch.rand(len(tokens), generator=generator) < rate).tolist()
    return [MASK if hit and t != END else t for t, hit in zip(tokens, hits, strict=True)]


def mispaired(pairs: EncodedPairs, share: float, *, seed: int) -> tuple[EncodedPairs, Tensor]:
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
    wrong = torch.zeros(count, dtype=torch.bool)
    wrong[hit] = True
    return replace(pairs, targets=targets), wrong


def _require_share(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise UsageError(f"{name} is {share:g}; allowed: 0..1.")
