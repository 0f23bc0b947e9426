"""IWSLT 2014: transcripts of talks with their translations, prepared as fairseq does."""

import re
from pathlib import Path

import torch

from papers.data.published.layout import found
from papers.data.text.pairs import PairSplits, lines, numbered
from tutelage.errors import UsageError

TESTS = ("dev2010", "dev2012", "tst2010", "tst2011", "tst2012")
LONGEST, RATIO, EVERY = 175, 1.5, 23
"""words of a side; one side to the other; of how many pairs one is held out"""
_DROPPED = ("<url>", "<talkid>", "<keywords>", "<speaker", "<reviewer", "<translator")
_TAG = re.compile(r"</?(?:title|description)>")
_SEGMENT = re.compile(r'<seg id="\d+">(.*?)</seg>', re.DOTALL)
_WHERE = {"of": "IWSLT 2014", "get": "give the folder that de-en.tgz unpacks to"}


def read_iwslt14(root: Path, source: str = "de", target: str = "en") -> PairSplits:
    """Sentence pairs in lower case, split as in fairseq's script for IWSLT'14.

    It is a UsageError if a file is missing or broken, or two files do not match.

    Of the training pairs, those with an empty side, with more than 175 words or with more than
    1.5 words to one are left out, and every 23rd is held out; the test part is dev2010,
    dev2012 and tst2010 to 2012. Words are what blanks divide: fairseq counts those of the Moses
    tokeniser, so that a few pairs may differ.

    Source: Cettolo et al., 2014, "Report on the 11th IWSLT Evaluation Campaign"; settings as
        Fan et al. 2021, Learning to Reweight with Deep Interactions, section 5.
    """
    root = Path(root)
    both = "de-en" if {source, target} == {"de", "en"} else f"{source}-{target}"
    sides = [
        _transcript(found(root, f"train.tags.{both}.{language}", **_WHERE))
        for language in (source, target)
    ]
    pairs = numbered(sides[0], sides[1], f"train.tags.{both}")
    fit = [row for row in range(len(pairs)) if _fits(pairs.sources[row], pairs.targets[row])]
    rows = torch.tensor(fit)
    held = torch.arange(len(fit)) % EVERY == EVERY - 1
    texts: list[list[str]] = [[], []]
    for name in _there(root, both, source):
        files = [f"{name}.{both}.{language}.xml" for language in (source, target)]
        segments = [_segments(found(root, file, **_WHERE)) for file in files]
        numbered(segments[0], segments[1], name)  # the two files of this part match
        for side, more in zip(texts, segments, strict=True):
            side += more
    return PairSplits(
        pairs.rows(rows[~held]),
        pairs.rows(rows[held]),
        numbered(texts[0], texts[1], "the test part"),
    )


def _there(root: Path, both: str, source: str) -> list[str]:
    # dev2012 is of another kind of talk, TEDX
    names = [f"IWSLT14.{kind}.{test}" for test in TESTS for kind in ("TED", "TEDX")]
    there = [name for name in names if (root / f"{name}.{both}.{source}.xml").exists()]
    if not there:
        raise UsageError(f"{root} has no test file such as {names[0]}.{both}.{source}.xml.")
    return there


def _transcript(file: Path) -> list[str]:
    kept = [line for line in lines(file) if not line.lstrip().startswith(_DROPPED)]
    return [_TAG.sub("", line).strip().lower() for line in kept]


def _segments(file: Path) -> list[str]:
    return [text.strip().lower() for text in _SEGMENT.findall("\n".join(lines(file)))]


def _fits(source: str, target: str) -> bool:
    counts = len(source.split()), len(target.split())
    return min(counts) > 0 and max(counts) <= min(LONGEST, RATIO * min(counts))
