"""The threshold beyond which a label is flagged: a conformal test against held-out examples.

The issue score of a training label is ranked among those of M held-out examples, which the
student was not trained on and whose labels are taken to be right:

    p = (1 + number of held-out examples with this score or a larger one) / (M + 1)

A label is flagged where ``p <= max_fpr``. Were a training example with a right label, too,
one drawn like those and not trained on, it would be flagged with at most that probability,
whatever student, teacher and score are (a conformal p-value). But the student was trained on
it: its loss is lower than it would be held out, and a lower score is flagged less. The
comparison errs on the safe side. The price is missed wrong labels: those that the student has
memorised have low scores. Where held-out labels are wrong themselves, the threshold is
stricter.

Over seeds, a label is flagged where more than half of the students that were trained on it
flag it. In the worst case, where these err together in the unluckiest way, that doubles the
promised share; where they err apart, it makes it smaller.

Source: Bates, Candes, Lei, Romano and Sesia, Testing for Outliers with Conformal p-values,
2023, section 2.1, for the p-value.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Integer


def p_values(
    issue_scores: Float[np.ndarray, "N"], clean: Float[np.ndarray, "M"]
) -> Float[np.ndarray, "N"]:
    """Rank issue scores among those of clean examples."""
    below = np.searchsorted(np.sort(clean), issue_scores, side="left")
    return (1 + len(clean) - below) / (1 + len(clean))


def smallest_fpr(clean: int) -> float:
    """The smallest false positive rate that clean examples can show."""
    return 1 / (clean + 1)


def limit(clean: Float[np.ndarray, "M"], max_fpr: float) -> float:
    """The score beyond which a label is flagged."""
    allowed = int(np.floor(max_fpr * (len(clean) + 1) + 1e-9)) - 1
    return float(np.sort(clean)[len(clean) - 1 - allowed])


def by_majority(
    flagged: Sequence[Bool[np.ndarray, "n"]],
    places: Sequence[Integer[np.ndarray, "n"]],
    count: int,
) -> Bool[np.ndarray, "N"]:
    """Labels that more than half of the students flag, of those that were trained on them."""
    votes, known = np.zeros(count, dtype=int), np.zeros(count, dtype=int)
    for flags, at in zip(flagged, places, strict=True):
        votes[at] += flags
        known[at] += 1
    return 2 * votes > known
