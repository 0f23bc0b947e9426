"""What one student is trained on, by what, and from which weights on."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tutelage.training.tutor import Tutor
from tutelage.types import Batch
from tutelage_cli.train.tracked import ById
from tutelage_cli.train.train_state import TrainState


@runtime_checkable
class Feed(Protocol):
    """Batches of epochs, the same again for the same number."""

    def __len__(self) -> int:
        """Batches in an epoch."""
        ...

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from the one with number ``start`` on."""
        ...


@dataclass(frozen=True)
class Course:
    """The training of one student, after what was trained before it."""

    tutor: Tutor
    """at the first step of this training"""
    train: Feed
    rates: tuple[float, ...]
    """the student's learning rate in each epoch of its own"""
    known: ById
    """what is known of the examples that it is trained on"""
    start: TrainState = field(default_factory=TrainState)
    """what came before: epochs of another student that it goes on from, seconds of others"""
    weights: Tensor | None = None
    """[N] how much the label of each training example counts; None: as the teacher says"""
    on_checked: bool = False
    """whether it is trained on the checked examples"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", self.start.epoch)

    first: int = field(init=False)
    """the number of its first epoch"""

    @property
    def epochs(self) -> int:
        """Epochs in all, those before it included."""
        return self.first + len(self.rates)


def seconds_now(device: torch.device) -> float:
    """Seconds that nobody else's work adds to, as far as the device allows it."""
    if device.type == "cpu":
        return time.process_time()
    torch.accelerator.synchronize(device)
    return time.perf_counter()
