"""Weights that are known before training, example by example."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from tutelage.errors import UsageError
from tutelage.objectives import Normalise
from tutelage.records import Lesson, Observation


class GivenWeights(nn.Module):
    """One weight for each example, whatever the student makes of it; nothing is learnt.

    Args:
        ids: The examples, int64 [N].
        weights: Theirs [N].

    Raises:
        UsageError: If an id or a weight is negative or not finite, or the two differ in length.
    """

    normalise: ClassVar[Normalise] = "mean"

    def __init__(self, ids: Tensor, weights: Tensor) -> None:
        super().__init__()
        if len(ids) != len(weights) or not len(ids) or int(ids.min()) < 0:
            raise UsageError(
                f"{len(weights)} weights for {len(ids)} ids; give one for each id, 0 and above."
            )
        if not bool(((weights >= 0) & weights.isfinite()).all()):
            worst = float(weights[~((weights >= 0) & weights.isfinite())][0])
            raise UsageError(f"a weight is {worst:g}; allowed: 0 and above.")
        by_id = torch.full((int(ids.max()) + 1,), float("nan"))
        by_id[ids] = weights.float()
        self.by_id: Tensor
        self.register_buffer("by_id", by_id)

    def weigh(self, lesson: Lesson, observation: Observation) -> Tensor:  # noqa: ARG002 - the seam
        """Look the weights up.

        Args:
            lesson: What the student saw.
            observation: What came of it.

        Returns:
            [L]; NaN for an id that has none.
        """
        last = len(self.by_id) - 1
        found = self.by_id[lesson.ids.clamp(max=last)]
        return found.where(lesson.ids <= last, float("nan"))
