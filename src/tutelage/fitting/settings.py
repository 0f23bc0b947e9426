"""The numbers that determine a run of ``fit``."""

import operator
from dataclasses import dataclass
from typing import Any

from tutelage.errors import UsageError
from tutelage.validation.ranges import at_least_one, not_negative, shares


@dataclass(frozen=True)
class FitSettings:
    """The numbers that determine a run."""

    epochs: int
    batch_size: int
    decay_at: tuple[float, ...]
    teacher_lr: float
    teacher_every: int
    seed: int
    folds: int

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "teacher_every", "seed", "folds"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        at_least_one(self, "epochs", "batch_size", "teacher_every")
        not_negative(self, "teacher_lr")
        shares(self, "decay_at")

    def decay(self, epoch: int) -> float:
        """The factor of the learning rate; the first epoch has the whole rate."""
        passed = sum(epoch >= max(1, int(share * self.epochs)) for share in self.decay_at)
        return 0.1**passed

    def decay_after(self, share: float) -> float:
        """The factor after a share of training, where that is no whole number of epochs."""
        return 0.1 ** sum(share >= max(place, 1e-9) for place in self.decay_at)


def _whole(name: str, value: Any) -> int:
    try:
        found = operator.index(value)
    except TypeError as error:
        raise UsageError(f"{name} is {value!r}; allowed: a whole number.") from error
    if not -(2**63) <= found < 2**63:
        raise UsageError(f"{name} is {value}; allowed: numbers of 64 bits.")
    return found
