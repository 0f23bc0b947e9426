"""Whether students predict given labels better than a constant prediction does."""

from typing import NamedTuple

from torch import Tensor


class Predicted(NamedTuple):
    """How many given labels are predicted."""

    correct: int
    most_frequent: int
    """examples of the most frequent label, which a constant prediction gets right"""
    rows: int

    @classmethod
    def of(cls, predicted: Tensor, given: Tensor) -> "Predicted":
        """Count predicted classes [N] and given labels [N]."""
        correct = int((predicted == given).sum())
        return cls(correct, int(given.bincount().max()), len(given))

    @property
    def above_chance(self) -> bool:
        """Whether the accuracy is above the most frequent label's rate by two standard errors.

        The standard error is that of a student with this rate.
        """
        rate = self.most_frequent / self.rows
        return self.correct > self.most_frequent + 2 * (self.rows * rate * (1 - rate)) ** 0.5

    def note(self, who: str, which: str = "given labels") -> str:
        """Say that it is at chance; empty where it is above."""
        if self.above_chance:
            return ""
        return (
            f"{who} predict {self.correct / self.rows:.1%} of {self.rows} {which}, hardly more "
            f"than the share of the most frequent label, {self.most_frequent / self.rows:.1%}"
        )


def folds_note(predicted: Predicted) -> str:
    """A caution that plain students of folds are at chance; empty where they are above."""
    note = predicted.note(
        "plain students of folds", "given labels that they were not trained on"
    )
    return note and f"{note}: cross-fitted results mean little"
