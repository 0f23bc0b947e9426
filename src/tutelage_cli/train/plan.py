"""The training plan of one student, and the state of its training between two steps."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tutelage.training.tutor import Tutor
from tutelage.types import Batch
from tutelage_cli.train.example_history import ExampleIndex


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


@runtime_checkable
class BatchSource(Protocol):
    """Batches by epoch; the same epoch gives the same batches."""

    def __len__(self) -> int:
        """Batches in an epoch."""
        ...

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from the one with number ``start`` on."""
        ...


@dataclass(frozen=True)
class TrainingPlan:
    """The training of one student, possibly from another's end."""

    tutor: Tutor
    """before its first step"""
    train: BatchSource
    rates: tuple[float, ...]
    """the student's learning rate in each epoch of this plan"""
    index: ExampleIndex
    """of the examples that it is trained on"""
    start: TrainState = field(default_factory=TrainState)
    """epochs of the student that it continues, and seconds of others that it depends on"""
    weights: Tensor | None = None
    """[N] weights of training examples for the report; None: the teacher's"""
    on_checked: bool = False
    """whether the checked examples are trained on"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", self.start.epoch)

    first: int = field(init=False)
    """number of its first epoch"""

    @property
    def epochs(self) -> int:
        """Number of epochs, those before it included."""
        return self.first + len(self.rates)


def seconds_now(device: torch.device) -> float:
    """Process time in seconds on the CPU; wall-clock time, synchronised, on other devices."""
    if device.type == "cpu":
        return time.process_time()
    torch.accelerator.synchronize(device)
    return time.perf_counter()
