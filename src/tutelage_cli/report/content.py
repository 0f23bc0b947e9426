"""Contents of a report: plain records that the caller fills and the page prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
from jaxtyping import Float, Integer, UInt8

Pixels = UInt8[np.ndarray, "H W"] | UInt8[np.ndarray, "H W 3"]
"""grey or colour, in bytes"""
PerSeed = tuple[float, ...]


def same_length(owner: str, record: object, first: str, *others: str) -> None:
    """Refuse fields that do not hold as many values as the first; None is passed over."""
    length = len(getattr(record, first))
    for name in others:
        values = getattr(record, name)
        if values is not None and len(values) != length:
            raise ValueError(f"{owner}: {name} holds {len(values)} values, expected {length}.")


@dataclass(frozen=True, eq=False)
class Augmentation:
    """A learned augmentation policy at the end of training, for every seed of an arm."""

    arm: str
    operations: tuple[str, ...]
    keep: Float[np.ndarray, "S A"]
    """Probability that an operation that was drawn is applied; 0.5 initially."""
    level: Float[np.ndarray, "S A"]
    """Expected level where it is applied; NaN for an operation without levels."""
    highest: int
    """Levels are 0 to this."""
    how_many: Float[np.ndarray, "S R"]
    """Probability of 1..R operations."""
    steps: tuple[int, ...]
    """Augmented steps before each stored point of the history, first seed."""
    past: Float[np.ndarray, "T A 2"]
    """Probability to be kept and expected level at each point of the history, first seed."""

    def __post_init__(self) -> None:
        shapes = (self.keep.shape[1], self.level.shape[1], self.past.shape[1])
        if set(shapes) != {len(self.operations)}:
            raise ValueError(
                f"augmentation of {self.arm!r}: arrays of {shapes} operations, expected "
                f"{len(self.operations)}."
            )


@dataclass(frozen=True, eq=False)
class Example:
    """One training example, as a picture or as text; labels are class names."""

    shown: Pixels | str
    id: int
    given: str
    predicted: str
    true: str | None
    weight: float
    loss: float

    def __post_init__(self) -> None:
        if isinstance(self.shown, str):
            return
        shape, kind = self.shown.shape, self.shown.dtype
        if kind != np.uint8 or len(shape) not in {2, 3} or shape[2:] not in {(), (3,)}:
            raise ValueError(
                f"image of example {self.id} is {kind}{list(shape)}; "
                "allowed: uint8 [H, W] or [H, W, 3]."
            )


@dataclass(frozen=True, eq=False)
class LeastTrusted:
    """The examples of lowest weight in one seed of a taught arm, the lowest first."""

    arm: str
    items: tuple[Example, ...]


@dataclass(frozen=True)
class Arm:
    """Students that are trained alike, over all seeds."""

    name: str
    teacher: str
    """One line that describes the teacher, or says that there is none."""
    seeds: tuple[int, ...]
    test_accuracy: PerSeed
    """Share of right answers on the test set, 0 to 1."""
    seconds: PerSeed
    """Duration of training."""
    ratio: PerSeed
    """Duration of training divided by that of the untaught arm."""
    memory: PerSeed | None = None
    """Bytes that training took at its peak; None where unknown."""
    weight_right: PerSeed | None = None
    """Mean teacher weight of rightly labelled examples; None where untaught or unknown."""
    weight_wrong: PerSeed | None = None
    """Mean teacher weight of wrongly labelled examples; None where untaught or unknown."""
    auroc: PerSeed | None = None
    """Chance that a wrongly labelled example weighs less than a rightly labelled one."""

    def __post_init__(self) -> None:
        if not self.seeds:
            raise ValueError(f"arm {self.name!r} has no seed; give at least one.")
        measured = ("test_accuracy", "seconds", "ratio", "memory")
        weights = ("weight_right", "weight_wrong", "auroc")
        same_length(f"arm {self.name!r}", self, "seeds", *measured, *weights)


@dataclass(frozen=True)
class Curve:
    """What one seed of one arm measured after each epoch."""

    arm: str
    seed: int
    epochs: tuple[int, ...]
    test_accuracy: tuple[float, ...]
    """Share of right answers on the test set, 0 to 1."""
    train_loss: tuple[float, ...]
    weight_right: tuple[float, ...] | None = None
    """Mean weight of rightly labelled examples; None where untaught or unknown."""
    weight_wrong: tuple[float, ...] | None = None
    """Mean weight of wrongly labelled examples; None where untaught or unknown."""

    def __post_init__(self) -> None:
        measured = ("test_accuracy", "train_loss", "weight_right", "weight_wrong")
        same_length(f"curve of {self.arm!r}, seed {self.seed}", self, "epochs", *measured)


@dataclass(frozen=True, eq=False)
class ClassWeights:
    """Mean weight by given label over a run: mean over rows, then over seeds."""

    arm: str
    epochs: tuple[int, ...]
    weights: Float[np.ndarray, "T C"]
    """NaN for a class without examples"""

    def __post_init__(self) -> None:
        if not self.epochs:
            raise ValueError(f"weights by class of {self.arm!r} are of no epoch.")
        same_length(f"weights by class of {self.arm!r}", self, "epochs", "weights")


@dataclass(frozen=True, eq=False)
class Examples:
    """Predictions, losses and weights of every training example, one seed of a taught arm."""

    arm: str
    ids: Integer[np.ndarray, "N"]
    given: Integer[np.ndarray, "N"]
    """Labels that the student was trained on."""
    true: Integer[np.ndarray, "N"] | None
    """Labels before noise; None where unknown."""
    predicted: Integer[np.ndarray, "N"]
    losses: Float[np.ndarray, "N"]
    weights: Float[np.ndarray, "N"]

    def __post_init__(self) -> None:
        columns = ("given", "true", "predicted", "losses", "weights")
        same_length(f"examples of {self.arm!r}", self, "ids", *columns)


@dataclass(frozen=True, eq=False)
class RunContent:
    """All contents of the report of one run."""

    title: str
    command: str
    """The exact command that repeats the run."""
    data: str
    """One line: name, sizes of the parts, noise, share of wrong labels."""
    classes: tuple[str, ...]
    arms: tuple[Arm, ...]
    curves: tuple[Curve, ...]
    examples: tuple[Examples, ...]
    least_trusted: tuple[LeastTrusted, ...]
    verdict: tuple[str, ...]
    """Sentences; the first is the headline."""
    settings: Mapping[str, str]
    environment: Mapping[str, str]
    augmentations: tuple[Augmentation, ...] = ()
    by_class: tuple[ClassWeights, ...] = ()

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError(f"arm names must differ, got {names}.")
        single = (self.examples, self.least_trusted, self.augmentations, self.by_class)
        for record in (*self.curves, *chain(*single)):
            if record.arm not in names:
                kind = type(record).__name__
                raise ValueError(f"{kind} of unknown arm {record.arm!r}; arms: {names}.")
        for records in single:
            owners = [record.arm for record in records]
            if len(set(owners)) < len(owners):
                raise ValueError(f"at most one record per arm is shown, got them for {owners}.")
