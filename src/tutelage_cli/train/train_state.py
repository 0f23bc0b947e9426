"""The state of a student's training between two steps."""

import math
from dataclasses import dataclass, field

from torch import Tensor


@dataclass
class TrainState:
    """The state of a student's training; a checkpoint has it beside the tutor's."""

    epoch: int = 0
    batch: int = 0
    """batches of this epoch that are done"""
    seconds: float = 0.0
    """time of the student and teacher steps so far"""
    history: list[dict[str, float | int]] = field(default_factory=list)
    """one entry per finished epoch"""
    loss: float = 0.0
    """sum over the batches of this epoch"""
    weights: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """this epoch's sum of weights of rightly and of wrongly labelled examples"""
    rows: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """how many such rows there were"""
    tracked: Tensor | None = None
    """[2, N, T] losses and weights of every example, see ``example_history.py``"""
    memory: int | None = None
    """peak of memory so far, bytes; None where that is not known"""

    def require_numbers(self) -> None:
        """Raise ``ValueError`` for values that are no finite numbers."""
        pair = [*self.weights, *self.rows]
        each = [n for entry in self.history for n in entry.values()]
        numbers = [self.seconds, self.loss, *pair, *each, self.memory or 0]
        if not all(type(n) in (int, float) and math.isfinite(n) for n in numbers):
            raise ValueError("it holds what is no number")
        if (len(self.weights), len(self.rows)) != (2, 2) or self.seconds < 0:
            raise ValueError("its sums of this epoch are damaged")

    def note_memory(self, peak: int | None) -> None:
        """Update the peak of memory, over all processes that trained this student."""
        if peak is not None:
            self.memory = max(peak, self.memory or 0)
