"""The training plan of one student: tutor, batches, learning rates and start."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tutelage.training.tutor import Tutor
from tutelage.types import Batch
from tutelage_cli.train.example_history import ExampleIndex
from tutelage_cli.train.train_state import TrainState


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
