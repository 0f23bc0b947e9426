"""Files through the public loader, against what was written into them."""

import logging
import os
import resource
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from tests.fuzz.outcomes import Outcome, refusal
from tests.fuzz.tables.content import Content, Row, colour_of, content_of, name_of
from tests.fuzz.tables.reasons import MUST, REASONS
from tests.fuzz.tables.situation import Files
from tests.fuzz.tables.writing import LABELS, written
from tutelage_cli.data.features.own_features import read_features
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import load
from tutelage_cli.data.text.own_tables import read_own_texts, text_columns

MEMORY = 2**30
"""bytes more than there are, which a reader may ask for"""


class Found(NamedTuple):
    """What the loader says of a part: which example, by its id, and its class."""

    examples: dict[int, tuple[int, str]]
    """by id: the number of the row whose image or text it is, and the name of its class"""


def outcome(f: Files) -> Outcome:
    """What becomes of the files of a situation."""
    content = content_of(f)
    with tempfile.TemporaryDirectory() as root, _quiet(Path(root) / "cache"):
        source = written(f, content, Path(root))
        skip = f.missing == "skipped"
        reading = Reading(missing_labels="skip" if skip else "refuse")
        try:
            with _little_memory():
                train, test, notes = _loaded(f, source, reading)
        except Exception as error:  # noqa: BLE001 - told by its kind
            found = refusal(error, f.spec, REASONS)
            if found.about == "refused without a known reason" and _must(f):
                return Outcome("refused", "as it has to be", found.detail)
            return found
        if _must(f):
            return Outcome("failed", "accepted what has to be refused", _must(f))
        return _compared(f, content, train, test, notes)


def _must(f: Files) -> str:
    must = next((part for part in MUST if part in f"{f.spec}; "), "")
    words = f.labels == "huge" and f.stored == "words"  # two classes, as any other words
    return "" if words and must == "labels=huge;" else must


@contextmanager
def _little_memory() -> Iterator[None]:
    # a reader that asks for very much is stopped, not the machine
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def _quiet(cache: Path) -> Iterator[None]:
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(cache)
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
        os.environ.pop("XDG_CACHE_HOME")
        if before is not None:
            os.environ["XDG_CACHE_HOME"] = before


def _loaded(f: Files, source: str, reading: Reading) -> tuple[Found, Found, Sequence[str]]:
    if f.door.endswith("texts"):
        parts = read_own_texts(source, text_columns(source), reading=reading)
        return _texts(parts.train), _texts(parts.test), parts.notes
    if f.door.endswith("features"):
        labels = Path(source).parents[1] / LABELS
        beside = labels if f.door.startswith("npy") else None
        parts = read_features(source, labels_from=beside, reading=reading)
        return _vectors(parts.train), _vectors(parts.test), parts.notes
    splits = load(source, reading=reading)
    return _images(splits.train), _images(splits.test), splits.notes


def _texts(part) -> Found:
    numbers = [int(text.rsplit(" ", 1)[1]) for text in part.sides[0]]
    names = [part.classes[label] for label in part.labels.tolist()]
    return Found(dict(zip(part.ids.tolist(), zip(numbers, names, strict=True), strict=True)))


def _vectors(part) -> Found:
    numbers = [int(number) for number in part.features[:, 0].tolist()]
    names = [part.classes[label] for label in part.labels.tolist()]
    return Found(dict(zip(part.ids.tolist(), zip(numbers, names, strict=True), strict=True)))


def _images(part) -> Found:
    known = torch.tensor([colour_of(n) for n in range(24)])
    seen = part.images.float().mean((2, 3))[:, None]  # [N, 1, 3]
    numbers = (seen - known).abs().sum(2).argmin(1).tolist()  # of JPEG, nearly
    names = [part.classes[label] for label in part.labels.tolist()]
    return Found(dict(zip(part.ids.tolist(), zip(numbers, names, strict=True), strict=True)))


def _compared(
    f: Files, content: Content, train: Found, test: Found, notes: Sequence[str]
) -> Outcome:
    if f.parts == "one":
        if train.examples.keys() & test.examples.keys():
            return Outcome("failed", "an example in both parts")
        whole = Found(train.examples | test.examples)
        return _part(f, content.train, whole, notes, "train") or Outcome("compared", "rows")
    said = _part(f, content.train, train, notes, "train")
    return said or _part(f, content.test, test, notes, "test") or Outcome("compared", "rows")


def _part(
    f: Files, rows: list[Row], found: Found, notes: Sequence[str], part: str
) -> Outcome | None:
    want = {row.number: name_of(row.label) for row in rows if row.label is not None}
    got = dict(found.examples.values())
    if len(got) != len(found.examples):
        return Outcome("failed", "an example twice", part)
    wrong = {n: (got[n], name) for n, name in want.items() if n in got and got[n] != name}
    if wrong:
        return Outcome("failed", "another label", f"{part}: {dict(list(wrong.items())[:3])}")
    if got.keys() - want.keys():
        return Outcome(
            "failed", "rows that nobody wrote", f"{part}: {got.keys() - want.keys()}"
        )
    lost = want.keys() - got.keys()
    if lost and not any(str(len(lost)) in note or _named(lost, note) for note in notes):
        return Outcome("failed", "left out in silence", f"{part}: {sorted(lost)}; {notes}")
    if f.door != "folder":  # ids are row numbers of the part
        first = rows[0].number
        if any(number != first + at for at, (number, _) in found.examples.items()):
            return Outcome("failed", "another id", part)
    return None


def _named(lost: set[int], note: str) -> bool:
    return all(str(number) in note for number in lost)
