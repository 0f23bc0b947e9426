"""How students of folds train: what is tried, and how long they go on."""

from typing import NamedTuple

VERSION = 5
"""of the procedure; a run does not go on from students of folds of another version"""
READABLE = tuple(range(3, VERSION + 1))
"""versions whose predictions of examples come from students that have not seen their labels"""
FEWEST = 480
"""steps: a student of a fold takes its share of at least so many, but never more than the run's
epochs over its examples have"""


class FoldSettings(NamedTuple):
    """How a student of a fold trains."""

    share: float
    """of the steps of the run's epochs over the examples that the student trains on"""
    decay_factor: float
    """times the run's weight decay"""

    def steps(self, total: int) -> int:
        """The student's steps, where the run's epochs would be a total of steps."""
        return max(1, min(total, round(self.share * max(FEWEST, total))))


TRIED = tuple(
    FoldSettings(*of) for of in ((1 / 6, 1.0), (1 / 3, 1.0), (1 / 3, 30.0), (1 / 3, 60.0))
)
"""of which the one is chosen whose student predicts given labels of the first fold best"""
FULL_RUN = FoldSettings(1.0, 1.0)
"""as long as the final student"""
STRONGER = FoldSettings(1 / 3, 100.0)
"""tried besides for ``regularised``; on soft targets some students fail with it"""
LATER_SHARE = 1 / 6
"""share: how long students of folds go on under the corrected loss, and how long
fresh ones train on posteriors"""
TRIAL_SHARE = 1 / 3
"""share: how long students try weight decays on posteriors"""
SHRINKAGE = 0.3
"""of transitions towards the identity, for students of folds, which go on from trained ones"""


def compares_full_run(chosen: FoldSettings) -> bool:
    """Whether a student of ``FULL_RUN`` is compared: more steps may be better than the chosen.

    The longest trial with the run's own weight decay was the best.
    """
    return chosen == TRIED[1]


def corrected_settings(chosen: FoldSettings) -> FoldSettings:
    """Settings of corrected students: half of the weight decay, which slows learning there."""
    return FoldSettings(LATER_SHARE, max(1.0, chosen.decay_factor / 2))


def distilled_tried(chosen: FoldSettings) -> tuple[FoldSettings, ...]:
    """Settings tried for students of posteriors: the plain ones' weight decay, a quarter of it.

    Soft targets of many classes contain little information about each example: a decay that
    suits given labels can be too strong for them.
    """
    decays = dict.fromkeys((chosen.decay_factor, max(1.0, chosen.decay_factor / 4)))
    return tuple(FoldSettings(TRIAL_SHARE, decay) for decay in decays)


def distilled_settings(chosen: FoldSettings) -> FoldSettings:
    """Settings of distilled students, which train on posteriors from new weights."""
    return FoldSettings(LATER_SHARE, chosen.decay_factor)


def times_seen(checked: int, others: int) -> int:
    """How often a distilled student is trained on each of its checked examples in an epoch.

    Three times, or as often as they do not outnumber the other examples, once at least.
    """
    return max(1, min(3, others // max(1, checked)))
