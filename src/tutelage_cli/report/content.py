"""Contents of a report: plain records that the caller fills and the page prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
from jaxtyping import Float, Integer

from tutelage_cli.report.distributions import Augmentation, Splits
from tutelage_cli.report.examples import Copies, Pictures, Sentences
from tutelage_cli.report.lengths import same_length

PerSeed = tuple[float, ...]


@dataclass(frozen=True)
class Arm:
    """One way to train, over all its seeds."""

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
        same_length(
            f"arm {self.name!r}",
            len(self.seeds),
            test_accuracy=self.test_accuracy,
            seconds=self.seconds,
            ratio=self.ratio,
            memory=self.memory,
            weight_right=self.weight_right,
            weight_wrong=self.weight_wrong,
            auroc=self.auroc,
        )


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
        same_length(
            f"curve of {self.arm!r}, seed {self.seed}",
            len(self.epochs),
            test_accuracy=self.test_accuracy,
            train_loss=self.train_loss,
            weight_right=self.weight_right,
            weight_wrong=self.weight_wrong,
        )


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
        owner = f"weights by class of {self.arm!r}"
        same_length(owner, len(self.epochs), weights=self.weights)


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
        same_length(
            f"examples of {self.arm!r}",
            len(self.ids),
            given=self.given,
            true=self.true,
            predicted=self.predicted,
            losses=self.losses,
            weights=self.weights,
        )


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
    pictures: tuple[Pictures, ...]
    verdict: tuple[str, ...]
    """Sentences; the first is the headline."""
    settings: Mapping[str, str]
    environment: Mapping[str, str]
    augmentations: tuple[Augmentation, ...] = ()
    by_class: tuple[ClassWeights, ...] = ()
    sentences: tuple[Sentences, ...] = ()
    """In place of pictures, where examples are text."""
    splits: tuple[Splits, ...] = ()
    copies: tuple[Copies, ...] = ()

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError(f"arm names must differ, got {names}.")
        single = (
            self.examples,
            self.pictures,
            self.augmentations,
            self.by_class,
            self.sentences,
            self.splits,
            self.copies,
        )
        for record in (*self.curves, *chain(*single)):
            if record.arm not in names:
                kind = type(record).__name__
                raise ValueError(f"{kind} of unknown arm {record.arm!r}; arms: {names}.")
        for records in single:
            owners = [record.arm for record in records]
            if len(set(owners)) < len(owners):
                raise ValueError(f"at most one record per arm is shown, got them for {owners}.")
