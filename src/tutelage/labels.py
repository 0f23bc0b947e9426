"""Labels that are no classes: examples without a label, and labels that nobody declared."""

from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.objectives import Objective, cross_entropy
from tutelage.records import Batch, Lesson

Rows = TypeVar("Rows", bound=Batch | Lesson)


@dataclass(frozen=True)
class CrossEntropy:
    """Cross entropy of every example in nats, where some labels stand for none.

    An example with an ignored label has loss 0 and, whatever its teacher says, weight 0: it
    counts in no mean and gives no gradient. A batch without a label leaves the student alone.
    Teachers that weigh or grade see class 0 in place of an ignored label. One that mixes
    examples before the student sees them (``Blending``, ``Mixup``) needs labels for all.
    """

    ignored: tuple[int, ...] = ()
    """labels that stand for none, such as 255 and -1"""

    def __call__(self, logits: Float[Tensor, "B C"], targets: Tensor) -> Tensor:
        """One loss per example.

        Args:
            logits: Unnormalised log-probabilities.
            targets: Class ids or ignored labels [B], or soft labels [B, C].

        Returns:
            [B].
        """
        if targets.ndim == 2:
            return cross_entropy(logits, targets)
        known = self.labelled(targets)
        return cross_entropy(logits, targets.where(known, 0)).where(known, 0)

    def labelled(self, targets: Int[Tensor, "B"]) -> Bool[Tensor, "B"]:
        """Which examples have a label.

        Args:
            targets: Class ids, or ignored labels.

        Returns:
            False where the label is an ignored one.
        """
        return _is_none_of(targets, self.ignored)


def _is_none_of(targets: Tensor, labels: tuple[int, ...]) -> Tensor:
    known = torch.ones_like(targets, dtype=torch.bool)
    for label in labels:
        known = known & (targets != label)
    return known


def labelled(objective: Objective, targets: Tensor) -> Tensor | None:
    """Which examples count for an objective.

    Args:
        objective: See ``tutelage.objectives``.
        targets: One for each example.

    Returns:
        bool [B]; None where all do, since the objective ignores no label.
    """
    if isinstance(objective, CrossEntropy) and targets.ndim == 1:
        return objective.labelled(targets)
    return None


def with_classes(rows: Rows, known: Tensor | None) -> Rows:
    """Class 0 in place of labels that are none, which would index beyond the classes.

    Args:
        rows: The lesson or batch.
        known: As ``labelled`` gives it.

    Returns:
        The same one where all rows have a label.
    """
    return rows if known is None else rows._replace(targets=rows.targets.where(known, 0))


def of_labelled(numbers: Tensor, known: Tensor | None) -> Tensor:
    """Zero in place of the numbers of rows without a label.

    Args:
        numbers: One for each row, [L] or [L, 1].
        known: As ``labelled`` gives it.

    Returns:
        The same shape.
    """
    return numbers if known is None else numbers.where(known.view_as(numbers), 0)


def require_classes(targets: Tensor, classes: int, ignored: tuple[int, ...] = ()) -> None:
    """Refuse labels that are neither a class nor declared to be none.

    Reading labels that are on a GPU waits for it: check them before they go there.

    Args:
        targets: Class ids [B].
        classes: C.
        ignored: Labels that stand for none.

    Raises:
        UsageError: If a label is outside of 0..C-1.
    """
    wrong = ((targets < 0) | (targets >= classes)) & _is_none_of(targets, ignored)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise UsageError(
            f"row {row} of the batch has label {int(targets[row])}; allowed: 0..{classes - 1}. "
            "Where it marks an unlabelled example, declare it: "
            f"objective=CrossEntropy(ignored=({int(targets[row])},))."
        )
