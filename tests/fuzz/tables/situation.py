"""A table or folder of examples: one choice on every axis, drawn from a seed or written out."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import NamedTuple

DOORS = (
    "csv of images",
    "parquet of images",
    "folder",
    "csv of texts",
    "parquet of texts",
    "parquet of features",
    "npz of features",
    "npy of features",
)


class Labels(NamedTuple):
    """Labels as they are written, and those that the test part has of its own."""

    values: Sequence[object]
    test: Sequence[object] = ()
    """the labels of the test part; those of the train part where there are none"""
    folders: bool = True
    """may be names of folders"""


LABELS: Mapping[str, Labels] = {
    "words": Labels(("cat", "dog", "emu")),
    "two words": Labels(("yes", "no")),
    "numbers": Labels((0, 1, 2)),
    "numbers from 1": Labels((1, 2, 3, 4, 5)),
    "numbers from 1, test 1 and 2": Labels((1, 2, 3, 4, 5), (1, 2)),
    "numbers with gaps": Labels((0, 3, 7)),
    "numbers and a word": Labels((1, 2, 3, "n/a"), folders=False),
    "numbers and a word, test numbers": Labels((1, 2, 3, "n/a"), (1, 2, 3), folders=False),
    "numbers, test with a word": Labels((1, 2, 3), (1, 2, 3, "n/a"), folders=False),
    "words, test a number": Labels(("cat", "dog", "1"), ("1",)),
    "words, test fewer": Labels(("cat", "dog", "emu"), ("emu", "cat")),
    "words, test of others": Labels(("cat", "dog"), ("cat", "emu")),
    "whole floats": Labels((0.0, 1.0, 2.0)),
    "fractions": Labels((0.5, 1.5, 2.5), folders=False),
    "true and false": Labels((True, False)),
    "with spaces": Labels(("spam ", "spam", " ham"), folders=False),
    "with commas and quotes": Labels(("a,b", 'say "x"', "semi;colon"), folders=False),
    "with line breaks": Labels(("a\nb", "c"), folders=False),
    "cases": Labels(("Spam", "spam", "HAM")),
    "accents": Labels(("café", "naïve", "日本")),
    "null and NA": Labels(("null", "None", "NA", "ok")),
    "nan the word": Labels(("nan", "ok", "no")),
    "padded": Labels(("01", "02", "03")),
    "negative": Labels((-1, 0, 1), folders=False),
    "a byte's mark": Labels((0, 1, 255), folders=False),
    "huge": Labels((0, 1_000_000_000), folders=False),
    "one class": Labels(("only",)),
    "formulas": Labels(("=1+1", "-2", "+3")),
    "hidden name": Labels((".cat", "dog"), folders=False),
}
FORMATS: Sequence[str] = (
    "plain",
    "byte-order mark",
    "quoted",
    "CRLF",
    "blank lines",
    "no newline at the end",
    "semicolons",
    "tabs",
    "UTF-16",
    "header in capitals",
    "header with spaces",
    "label twice",
    "label twice in another case",
    "path twice",
    "unnamed index",
    "other columns",
    "label first",
    "a row too short",
    "no rows",
    "empty file",
)
MISSING: Sequence[str] = ("none", "one", "test", "blanks", "skipped")
STORED: Sequence[str] = ("as they are", "words", "small", "float", "dictionary", "large string")
SHARDS: Sequence[str] = ("one", "three", "words in the last", "odd ones beside")
ENDINGS: Mapping[str, Sequence[str]] = {
    "png": (".png",),
    "capitals": (".PNG", ".png"),
    "several": (".png", ".bmp", ".webp", ".tiff"),
    "of JPEG": (".jpg", ".jpeg", ".JPG"),
    "rare ones of JPEG": (".jpg", ".jpe", ".jfif"),
    "without": (".png", ""),
    "others": (".png", ".pgm", ".tga"),
}
KEYS: Sequence[str] = (
    *("none", "id from 0", "index from 1", "", "name"),
    *("twice", "lacking", "extra"),
)
"""columns of a table of labels for a .npy file, whose rows are shuffled but for none"""
BESIDE: Sequence[str] = (
    "nothing",
    "hidden files",
    "hidden folder",
    "notes",
    "thumbs",
    "deeper",
)


@dataclass(frozen=True)
class Files:
    """One choice on every axis; the defaults are the plainest."""

    door: str = "csv of images"
    parts: str = "one"
    """one, test or validation"""
    labels: str = "words"
    form: str = "plain"
    """of csv files"""
    missing: str = "none"
    stored: str = "as they are"
    """labels in Parquet"""
    shards: str = "one"
    endings: str = "png"
    beside: str = "nothing"
    """what lies in a folder"""
    keys: str = "none"
    seed: int = 0

    @property
    def spec(self) -> str:
        """What repeats it on the command line."""
        plain = asdict(Files())
        odd = {k: v for k, v in asdict(self).items() if v != plain[k]}
        return "; ".join(f"{k}={v}" for k, v in odd.items()) or "seed=0"


def from_spec(spec: str) -> Files:
    """What ``Files.spec`` wrote; a number alone is a seed."""
    if spec.strip().isdigit():
        return drawn(int(spec))
    pairs = (pair.split("=", 1) for pair in spec.split(";"))
    chosen = {k.strip(): v.strip() for k, v in pairs}
    seed = int(chosen.pop("seed", "0"))
    return fitting(replace(Files(), **chosen, seed=seed))


def drawn(seed: int) -> Files:
    """The files of a seed."""
    draw = random.Random(seed)

    def choose(plain: str, others: Sequence[str], share: float) -> str:
        return plain if draw.random() < share else draw.choice(others)

    return fitting(
        Files(
            door=draw.choice(DOORS),
            parts=draw.choice(("one", "test", "test", "validation")),
            labels=choose("words", list(LABELS), 0.2),
            form=choose("plain", FORMATS, 0.5),
            missing=choose("none", MISSING, 0.7),
            stored=choose("as they are", STORED, 0.5),
            shards=choose("one", SHARDS, 0.5),
            endings=choose("png", list(ENDINGS), 0.5),
            beside=choose("nothing", BESIDE, 0.5),
            keys=choose("none", KEYS, 0.2),
            seed=seed,
        )
    )


def _fitting_arrays(f: Files) -> dict[str, str]:
    keys = {} if f.door == "npy of features" else {"keys": "none"}
    if not f.door.startswith("np"):
        return keys
    return keys | {"parts": "one" if f.door.startswith("npy") or f.parts == "one" else "test"}


def fitting(f: Files) -> Files:
    """The same, with what does not concern the door made plain."""
    folder, parquet = f.door == "folder", f.door.startswith("parquet")
    plain: dict[str, str] = {}
    if folder or parquet or f.door.startswith("np"):
        plain |= {"form": "plain"}
    if not parquet:
        plain |= {"stored": "as they are", "shards": "one"}
    if not folder:
        plain |= {"endings": "png", "beside": "nothing"}
    else:
        plain |= {"missing": "none"}
        if not LABELS[f.labels].folders:
            plain |= {"labels": "words"}
    plain |= _fitting_arrays(f)
    if f.missing == "blanks" and not f.door.startswith("csv"):
        plain |= {"missing": "none"}
    if f.missing == "test" and plain.get("parts", f.parts) == "one":
        plain |= {"missing": "none"}
    return replace(f, **plain)


def simpler(f: Files) -> Iterator[Files]:
    """The same with one axis made plain."""
    for field in fields(Files):
        value = getattr(Files(), field.name)
        if field.name != "seed" and getattr(f, field.name) != value:
            fewer = fitting(replace(f, **{field.name: value}))
            if fewer != f:
                yield fewer
