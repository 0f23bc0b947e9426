"""Precision, recall and their kin are those of scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from tutelage_cli.inspect.quality import auroc, known_wrong, quality


@pytest.mark.parametrize("seed", range(4))
def test_shares_are_those_of_scikit_learn(seed) -> None:
    random = np.random.default_rng(seed)
    wrong, issue_scores = random.random(90) < 0.3, random.integers(0, 12, 90).astype(float)
    flagged = issue_scores + 4 * wrong > 9
    found = quality(flagged, wrong)
    precision, recall, f1, _ = precision_recall_fscore_support(wrong, flagged, average="binary")
    assert (found.precision, found.recall, found.f1) == pytest.approx((precision, recall, f1))
    assert found.false_positive_rate == pytest.approx((flagged & ~wrong).sum() / (~wrong).sum())
    assert auroc(issue_scores, wrong) == pytest.approx(roc_auc_score(wrong, issue_scores))


def test_a_share_of_nothing_is_not_a_number() -> None:
    none, three = np.zeros(3, dtype=bool), np.ones(3, dtype=bool)
    found = quality(none, none)
    assert math.isnan(found.precision)
    assert math.isnan(found.recall)
    assert found.false_positive_rate == 0
    assert math.isnan(quality(three, three).false_positive_rate)
    assert math.isnan(auroc(np.arange(3.0), three))


def test_an_infinite_doubt_is_the_largest() -> None:
    assert auroc(np.array([1.0, np.inf, 2.0]), np.array([False, True, False])) == 1


def test_wrong_is_what_differs_from_the_truth() -> None:
    assert known_wrong(["a", "b"], ["a", "c"]).tolist() == [False, True]
