"""Weights that are known before training, example by example."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from tutelage.errors import UsageError
from tutelage.objectives import Normalise
from tutelage.records import Lesson, Observation
from tutelage.shapes import described


class GivenWeights(nn.Module):
    """One weight for each example, whatever the student makes of it; nothing is learnt.

    Args:
        ids: The examples, int64 [N].
        weights: Theirs [N].

    Raises:
        UsageError: If ids are not whole numbers, one is negative or comes twice, a weight is
            negative or not finite in float32, or the two differ in length.
    """

    normalise: ClassVar[Normalise] = "mean"

    def __init__(self, ids: Tensor, weights: Tensor) -> None:
        super().__init__()
        if ids.ndim != 1 or ids.is_floating_point() or ids.dtype == torch.bool:
            raise UsageError(f"ids are {described(ids)}; allowed: whole numbers [N].")
        if weights.shape != ids.shape or not len(ids) or int(ids.min()) < 0:
            lowest = f", of which the lowest is {int(ids.min())}" if len(ids) else ""
            raise UsageError(
                f"{len(weights)} weights for {len(ids)} ids{lowest}; give one for each id, 0 "
                f"and above. The weights are {described(weights)}."
            )
        known, times = ids.unique(return_counts=True)
        if len(known) < len(ids):
            twice = int(known[times > 1][0])
            raise UsageError(f"the id {twice} comes {int(times.max())} times; give each once.")
        narrow = weights.float()
        if not bool(((narrow >= 0) & narrow.isfinite()).all()):
            worst = int((~((narrow >= 0) & narrow.isfinite())).nonzero()[0])
            raise UsageError(
                f"a weight is {float(weights[worst]):g}; allowed: 0 and above, finite in "
                f"float32. It is that of the id {int(ids[worst])}."
            )
        highest = int(ids.max())
        if highest > 1000 * len(ids) + 10**7:
            raise UsageError(
                f"the highest of {len(ids)} ids is {highest}, and all below it take memory, "
                "too: number the examples from 0."
            )
        by_id = torch.full((int(ids.max()) + 1,), float("nan"))
        by_id[ids.long()] = narrow
        self.by_id: Tensor
        self.register_buffer("by_id", by_id)

    def weigh(self, lesson: Lesson, observation: Observation) -> Tensor:  # noqa: ARG002 - the seam
        """Look the weights up.

        Args:
            lesson: What the student saw.
            observation: What came of it.

        Returns:
            [L]; NaN for an id that has none, which no student is trained by.
        """
        last = len(self.by_id) - 1
        found = self.by_id[lesson.ids.clamp(min=0, max=last)]
        return found.where((lesson.ids >= 0) & (lesson.ids <= last), float("nan"))
