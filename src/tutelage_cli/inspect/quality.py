"""Precision and recall of flagged labels, where it is known which labels are wrong."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float


class Quality(NamedTuple):
    """Of the flagged among N labels; a share of nothing is NaN."""

    wrong: int
    """labels that are wrong"""
    flagged: int
    hits: int
    """flagged labels that are wrong"""
    precision: float
    """hits / flagged"""
    recall: float
    """hits / wrong"""
    f1: float
    """harmonic mean of both"""
    false_positive_rate: float
    """flagged labels that are right / right labels"""


def quality(flagged: Bool[np.ndarray, "N"], wrong: Bool[np.ndarray, "N"]) -> Quality:
    """Compare flagged labels with wrong ones."""
    hits, n_flagged, n_wrong = (int(x.sum()) for x in (flagged & wrong, flagged, wrong))
    right = len(wrong) - n_wrong
    return Quality(
        wrong=n_wrong,
        flagged=n_flagged,
        hits=hits,
        precision=_share(hits, n_flagged),
        recall=_share(hits, n_wrong),
        f1=_share(2 * hits, n_flagged + n_wrong),
        false_positive_rate=_share(n_flagged - hits, right),
    )


def auroc(issue_scores: Float[np.ndarray, "N"], wrong: Bool[np.ndarray, "N"]) -> float:
    """The chance that a wrong label has a larger score than a right one; ties count half."""
    if wrong.all() or not wrong.any():
        return float("nan")
    from sklearn.metrics import roc_auc_score  # takes seconds, and only known truth needs it

    places = np.unique(issue_scores, return_inverse=True)[1]  # an infinite score is the largest
    return float(roc_auc_score(wrong, places))


def known_wrong(given: Sequence[str], true: Sequence[str]) -> Bool[np.ndarray, "N"]:
    """Which labels are wrong."""
    return np.array([g != t for g, t in zip(given, true, strict=True)], dtype=bool)


def _share(part: int, total: int) -> float:
    return part / total if total else float("nan")
