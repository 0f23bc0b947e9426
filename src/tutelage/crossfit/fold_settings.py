"""How students of folds train: what is tried, and how long they go on."""

from typing import NamedTuple


class FoldSettings(NamedTuple):
    """How a student of a fold trains."""

    share: float
    """of the run's steps"""
    decay: float
    """times the run's weight decay"""


TRIED = (FoldSettings(1 / 6, 1), FoldSettings(1 / 3, 1), FoldSettings(1 / 3, 30))
"""of which the one is chosen whose student predicts given labels of the first fold best"""
STRONGER = FoldSettings(1 / 3, 100)
"""tried besides by the command line, for ``regularised`` and for the weight decay of the last
student of ``cross-fitted``; students of folds learn little under the corrected loss with it"""
LONGEST_ROUND = 1 / 3
"""of the run's steps, at most: students that go on under the corrected loss need no more"""
SHRINKAGE = 0.3
"""of transitions towards the identity, for students of folds, which go on from trained ones"""
