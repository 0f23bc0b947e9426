"""BLEU is sacreBLEU's, in lower case, and lists that do not match are refused."""

import pytest

from papers.fan2021interactions.translators import bleu
from tutelage.errors import UsageError

OUTPUTS = ["the cat sat on the mat", "", "a dog ran"]
REFERENCES = ["the cat sat on the mat", "it rained all day", "a dog ran"]


def test_an_empty_line_costs_its_length_alone():
    # all 9 words right, with 13 in the references: exp(1 - 13/9) = 0.641 for brevity
    assert bleu(OUTPUTS, REFERENCES) == pytest.approx(64.12, abs=0.005)


def test_nothing_said_is_nothing():
    assert bleu([""] * 3, REFERENCES) == 0


def test_three_right_words_alone_are_nothing():
    assert bleu(["a dog ran"], ["a dog ran"]) == 0


def test_case_does_not_count():
    loud = [text.upper() for text in REFERENCES]
    assert bleu(loud, REFERENCES) == pytest.approx(100)


def test_lists_that_do_not_match_are_refused():
    with pytest.raises(UsageError, match="3 outputs but 2 references"):
        bleu(OUTPUTS, REFERENCES[:2])
    with pytest.raises(UsageError, match="one at least"):
        bleu([], [])
