"""IWSLT 2014 in its published layout, prepared as fairseq does."""

import pytest

from papers.data.published.iwslt14 import read_iwslt14
from tutelage.errors import UsageError


def laid_out(root, extra=()):
    talks = [f"Satz {n} mit Worten" for n in range(47)] + ["", "eins zwei drei vier", *extra]
    head = ["<url>http://x</url>", "<talkid>1</talkid>", "<title>Ein Titel hier</title>"]
    for language, other in (("de", talks), ("en", [*talks[:-1], "one"])):
        text = "\n".join([*head, *other]) + "\n"
        (root / f"train.tags.de-en.{language}").write_text(text, encoding="utf-8")
        for kind, test in (("TED", "dev2010"), ("TEDX", "dev2012"), ("TED", "tst2010")):
            segments = "".join(f'<seg id="{n}"> {test} Nr {n} </seg>\n' for n in (1, 2))
            (root / f"IWSLT14.{kind}.{test}.de-en.{language}.xml").write_text(
                f"<mteval>\n{segments}</mteval>\n", encoding="utf-8"
            )
    return root


def test_parts_are_those_of_the_script(tmp_path):
    parts = read_iwslt14(laid_out(tmp_path))
    assert parts.held_out is not None
    assert parts.test is not None
    # 1 title and 47 sentences fit: neither the empty one nor 4 words to 1 does
    assert list(parts.held_out.sources) == [
        "satz 21 mit worten",  # the 23rd and the 46th of these
        "satz 44 mit worten",
    ]
    assert len(parts.train) == 46
    assert parts.train.sources[0] == "ein titel hier"
    assert not set(parts.train.ids.tolist()) & set(parts.held_out.ids.tolist())
    assert len(parts.test) == 6
    assert parts.test.sources[0] == "dev2010 nr 1"


def test_the_other_direction_reads_the_same_files(tmp_path):
    assert len(read_iwslt14(laid_out(tmp_path), "en", "de").train) == 46


def test_what_is_missing_or_does_not_match_is_told(tmp_path):
    with pytest.raises(UsageError, match=r"holds no train.tags.de-en.de"):
        read_iwslt14(tmp_path)
    laid_out(tmp_path)
    (tmp_path / "train.tags.de-en.en").write_text("one\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"train.tags.de-en has 50 sentences in one"):
        read_iwslt14(tmp_path)
