"""A verdict follows from the interval of the mean difference, and from nothing else."""

import pytest
from scipy import stats

from tutelage_cli.claims import (
    FAILS,
    HOLDS,
    UNDECIDED,
    Comparison,
    combined_verdict,
    evaluate,
)

TAUGHT, PLAIN = ("taught", "score"), ("plain", "score")
ABOVE = Comparison(TAUGHT, "above", PLAIN)


def measured(taught, plain):
    return {"taught": {"score": taught}, "plain": {"score": plain}}


@pytest.mark.parametrize(
    ("comparison", "taught", "plain", "verdict"),
    [
        (ABOVE, [2.0, 3.1, 4.0], [1.0, 2.0, 3.0], HOLDS),
        (ABOVE, [1.0, 2.0, 3.0], [2.0, 3.1, 4.0], FAILS),
        (ABOVE, [2.0, 1.0, 4.0], [1.0, 2.0, 3.0], UNDECIDED),
        (ABOVE, [1.0, 2.0], [1.0, 2.0], UNDECIDED),
        (ABOVE, [2.0, 3.0], [1.0, 2.0], HOLDS),  # the same difference in every seed
        (ABOVE, [9.0], [1.0], UNDECIDED),
        (ABOVE, [9.0, 9.1, None], [1.0, 1.0, 1.0], UNDECIDED),
        (Comparison(TAUGHT, "below", PLAIN), [1.0, 2.0, 3.0], [2.0, 3.1, 4.0], HOLDS),
        (Comparison(TAUGHT, "below", PLAIN, 2.0), [1.0, 2.0], [2.0, 3.1], FAILS),
        (Comparison(TAUGHT, "above", PLAIN, -2.0), [1.0, 2.0], [2.0, 3.01], HOLDS),
        (Comparison(TAUGHT, "below", 0.8), [0.7, 0.71, 0.69], [], HOLDS),
        (Comparison(TAUGHT, "below", 0.8), [0.9, 0.91, 0.89], [], FAILS),
        (Comparison(TAUGHT, "above", 1.0), [0.9, 1.2, 1.1], [], UNDECIDED),
    ],
)
def test_the_interval_decides(comparison, taught, plain, verdict):
    assert evaluate(comparison, measured(taught, plain)).verdict == verdict


def test_p_is_that_of_the_paired_one_sided_t_test():
    taught, plain = [3.0, 2.2, 4.1, 2.9], [2.5, 2.0, 3.1, 3.0]
    judged = evaluate(ABOVE, measured(taught, plain))
    wanted = stats.ttest_rel(taught, plain, alternative="greater")
    assert judged.p == pytest.approx(wanted.pvalue)
    interval = stats.ttest_rel(taught, plain).confidence_interval(0.9)
    assert (judged.low, judged.high) == pytest.approx((interval.low, interval.high))
    assert judged.n == 4


def test_a_verdict_is_holds_exactly_where_p_is_below_five_percent():
    for shift in (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8):
        plain = [1.0, 2.0, 3.0, 4.0]
        taught = [shift + p + e for p, e in zip(plain, (0.3, -0.3, 0.4, -0.4), strict=True)]
        judged = evaluate(ABOVE, measured(taught, plain))
        assert judged.p is not None
        assert (judged.verdict == HOLDS) == (judged.p < 0.05)


def test_why_a_comparison_is_undecided_is_said():
    assert "one seed" in evaluate(ABOVE, measured([1.0], [0.0])).why
    lost = evaluate(ABOVE, measured([1.0, float("nan"), 2.0], [0.0, 0.0, None]))
    assert "2 seeds" in lost.why
    assert lost.n == 1
    assert "zero" in evaluate(ABOVE, measured([1.0, 0.0], [0.0, 1.0])).why


def test_a_comparison_is_put_in_words():
    text = Comparison(TAUGHT, "below", PLAIN, margin=0.1).text
    assert text == "score of taught below score of plain by more than 0.1"
    assert Comparison(TAUGHT, "above", 0.8).text == "score of taught above 0.8"


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, UNDECIDED], UNDECIDED),
        ([HOLDS, UNDECIDED, FAILS], FAILS),
        ([FAILS], FAILS),
    ],
)
def test_all_comparisons_have_to_hold(verdicts, whole):
    assert combined_verdict(verdicts) == whole
