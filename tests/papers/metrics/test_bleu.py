"""BLEU is sacreBLEU's, and lists that do not match are refused."""

import pytest

from papers.metrics import bleu
from tutelage.errors import UsageError

OUTPUTS = ["the cat sat on the mat", "", "a dog ran"]
REFERENCES = ["the cat sat on the mat", "it rained all day", "a dog ran"]


def test_an_empty_line_costs_its_length_alone():
    # all 9 words right, with 13 in the references: exp(1 - 13/9) = 0.641 for brevity
    assert bleu(OUTPUTS, REFERENCES, lower_case=False) == pytest.approx(64.12, abs=0.005)


def test_nothing_said_is_nothing():
    assert bleu([""] * 3, REFERENCES, lower_case=False) == 0


def test_three_right_words_alone_are_nothing():
    assert bleu(["a dog ran"], ["a dog ran"], lower_case=False) == 0


def test_case_is_left_aside_on_request():
    loud = [text.upper() for text in REFERENCES]
    assert bleu(loud, REFERENCES, lower_case=True) == pytest.approx(100)
    assert bleu(loud, REFERENCES, lower_case=False) == 0


def test_lists_that_do_not_match_are_refused():
    with pytest.raises(UsageError, match="3 outputs but 2 references"):
        bleu(OUTPUTS, REFERENCES[:2], lower_case=False)
    with pytest.raises(UsageError, match="no sentence to score"):
        bleu([], [], lower_case=False)
