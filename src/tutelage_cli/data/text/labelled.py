"""Texts with labels, one sentence or two each, from the columns of a data set."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.classes import refuse_sparse
from tutelage_cli.data.columns import FIRST, listed
from tutelage_cli.data.parquet import parquet_splits
from tutelage_cli.data.parquet_files import open_parquet, read_rows
from tutelage_cli.data.splits import HELD_OUT_NAMES

SIDES = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("sentence",),
    ("text",),
)
"""columns of texts that are known, those of GLUE's tasks among them"""
LABEL = "label"


@dataclass(frozen=True)
class LabelledTexts:
    """N texts with a label each."""

    sides: tuple[Sequence[str], ...]
    """N sentences; where a text has two, N others"""
    labels: Tensor
    """int64 [N] class ids, or float32 [N] numbers"""
    ids: Tensor
    """[N] int64: stable identities"""
    classes: int
    """how many there are; 1 where labels are numbers"""
    name: str
    """for messages"""

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, which: Tensor) -> "LabelledTexts":
        """Some of the texts."""
        places: list[int] = which.tolist()
        sides = tuple([side[n] for n in places] for side in self.sides)
        labels, ids = self.labels[which], self.ids[which]
        return LabelledTexts(sides, labels, ids, self.classes, self.name)


class TextSplits(NamedTuple):
    """Labelled texts by what they are for."""

    train: LabelledTexts
    held_out: LabelledTexts


def read_texts(
    folder: Path | str, columns: Sequence[str] | None = None, label: str = LABEL
) -> TextSplits:
    """Labelled texts from a folder of parquet files, as the Hugging Face Hub has them.

    Held out is ``validation`` (or valid, val, dev). Test parts are left alone, since GLUE
    publishes them without labels.
    """
    place = Path(folder).expanduser()
    files = parquet_splits(place) if place.is_dir() else {}
    held_out = next((name for name in HELD_OUT_NAMES if name in files), "")
    if "train" not in files or not held_out:
        raise UsageError(
            f"{folder} lacks parquet files named after train and {HELD_OUT_NAMES[0]}; give a "
            "folder such as that of a GLUE task."
        )
    train, tested = (
        _read(files[name], f"{place.name}, {name}", columns, label)
        for name in ("train", held_out)
    )
    if train.labels.dtype != tested.labels.dtype:
        raise UsageError(
            f"labels are {train.labels.dtype} in {train.name}, but {tested.labels.dtype} in "
            f"{tested.name}: give classes as whole numbers in both, or real numbers in both."
        )
    classes = max(train.classes, tested.classes)
    train, tested = (
        LabelledTexts(p.sides, p.labels, p.ids, classes, p.name) for p in (train, tested)
    )
    return TextSplits(train, tested)


def _read(
    files: Sequence[Path], name: str, columns: Sequence[str] | None, label: str
) -> LabelledTexts:
    # pyarrow is an extra's, so that a table is Any here
    tables: list[Any] = [open_parquet(path) for path in files]
    known = tables[0].schema_arrow.names
    sides = columns or next((s for s in SIDES if set(s) <= set(known)), ())
    missing = sorted({*sides, label} - set(known))
    if missing or not sides:
        lacking = ", ".join(missing) or "one that is known to hold texts; name it"
        raise UsageError(f"{name} has columns {', '.join(known)}, but not {lacking}.")
    read = [
        read_rows(path, table, [*sides, label]).to_pydict()
        for path, table in zip(files, tables, strict=True)
    ]
    texts = tuple([text for table in read for text in table[side]] for side in sides)
    for side in texts:
        if odd := [row for row, text in enumerate(side) if not isinstance(text, str)]:
            raise UsageError(f"{name}: {listed([odd[0] + FIRST])} has no text; drop that row.")
    return _numbered(texts, [y for table in read for y in table[label]], name)


def _numbered(
    sides: tuple[Sequence[str], ...], labels: Sequence[Any], name: str
) -> LabelledTexts:
    ids = torch.arange(len(labels))
    if odd := [
        n for n, y in enumerate(labels) if not isinstance(y, int | float) or not 0 <= y < inf
    ]:
        raise UsageError(
            f"{name}: {listed([odd[0] + FIRST])} has label {labels[odd[0]]!r}; allowed: finite "
            "numbers, 0 and above. GLUE's test parts have -1 in place of labels."
        )
    if any(isinstance(y, float) for y in labels):
        return LabelledTexts(sides, torch.tensor(labels, dtype=torch.float32), ids, 1, name)
    refuse_sparse(set(labels), where=name)
    found = torch.tensor(labels, dtype=torch.int64)
    return LabelledTexts(sides, found, ids, int(found.max()) + 1, name)
