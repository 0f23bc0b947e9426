"""A run of ``fit`` between two epochs, and its checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.storage.checkpoint import (
    check_checksum,
    load_checkpoint,
    name_damaged_file,
    save_checkpoint,
    with_checksum,
)
from tutelage.training.tutor import Tutor

FILE = "fit.pt"
"""the checkpoint in a run's folder"""


@dataclass
class FitState:
    """A run between two epochs."""

    history: list[dict[str, float | int]] = field(default_factory=list)
    best_epoch: int = 0
    best: dict[str, Any] = field(default_factory=dict)
    """the student after its best epoch"""
    weights: Tensor = field(default_factory=lambda: torch.zeros(0))
    """[N] of that epoch"""


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint of a run, or none where there is no folder."""

    folder: Path | None
    run: Mapping[str, Any]
    """what tells it from other runs, as plain values"""

    def save(self, tutor: Tutor, state: FitState) -> None:
        """Replace the file."""
        if self.folder is not None:
            parts = {"tutor": tutor.state_dict(), "epochs": dict(vars(state))}
            content = with_checksum("state", parts)
            save_checkpoint(self.folder / FILE, content | {"run": dict(self.run)})

    def resume(self, tutor: Tutor) -> FitState:
        """Load the tutor's state and return the run's; a new one where there is no file."""
        if self.folder is None or not (file := self.folder / FILE).exists():
            return FitState()
        remedy = "Delete it to begin anew, or give another folder."
        with name_damaged_file(file, remedy):
            found = load_checkpoint(file, tutor.problem.student.device)
            there = found["run"]
            for name in (name for name in self.run if there.get(name) != self.run[name]):
                raise UsageError(
                    f"{file} is of another run: its {name} is {there.get(name)}, here "
                    f"{self.run[name]}. {remedy}"
                )
            parts = check_checksum("state", found)
            tutor.load_state_dict(parts["tutor"])
            state = FitState(**parts["epochs"])
            state.weights = state.weights.cpu()
            return state
