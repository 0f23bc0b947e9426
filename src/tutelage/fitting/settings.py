"""The numbers that determine a run of ``fit``."""

import operator
from dataclasses import dataclass
from numbers import Real
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
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        if not isinstance(self.decay_at, tuple) or not all(map(_real, self.decay_at)):
            raise UsageError(
                f"decay_at is {self.decay_at!r}; allowed: a sequence of shares in (0, 1]."
            )
        at_least_one(self, "epochs", "batch_size", "teacher_every")
        not_negative(self, "teacher_lr")
        shares(self, "decay_at")

    def lr_factor(self, epoch: int) -> float:
        """The factor of the learning rate; the first epoch has the whole rate."""
        passed = sum(epoch >= max(1, int(share * self.epochs)) for share in self.decay_at)
        return 0.1**passed

    def lr_factor_after(self, share: float) -> float:
        """The factor after a share of training, where that is no whole number of epochs."""
        return 0.1 ** sum(share >= max(place, 1e-9) for place in self.decay_at)


def not_below_zero(name: str, value: Any) -> int:
    """A setting as a whole number of 0 and above."""
    if (found := whole(name, value)) < 0:
        raise UsageError(f"{name} is {found}; allowed: 0 and above.")
    return found


def whole(name: str, value: Any) -> int:
    """A setting as a whole number of 64 bits; anything else is refused."""
    try:
        found = operator.index(value)
    except TypeError as error:
        raise UsageError(f"{name} is {value!r}; allowed: a whole number.") from error
    if not -(2**63) <= found < 2**63:
        raise UsageError(f"{name} is {value}; allowed: numbers of 64 bits.")
    return found


def _real(value: object) -> bool:
    return isinstance(value, Real)
