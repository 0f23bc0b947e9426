"""A run of ``fit`` between two epochs, and its checkpoint."""

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
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
REMEDY = "Delete it to begin anew, or give another folder."


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
    """what identifies it, as plain values"""

    def save(self, tutor: Tutor, state: FitState) -> None:
        """Replace the file."""
        if self.folder is not None:
            parts = {"tutor": tutor.state_dict(), "epochs": dict(vars(state))}
            content = with_checksum("state", parts)
            save_checkpoint(self.folder / FILE, content | {"run": dict(self.run)})

    def resume(self, tutor: Tutor) -> FitState:
        """Load the tutor's state and return the run's; a new one where there is no file."""
        if self.folder is None or not (self.folder / FILE).exists():
            return FitState()
        parts = self._read(FILE, tutor.problem.student.device)
        with self._named(FILE):
            tutor.load_state_dict(parts["tutor"])
            state = FitState(**parts["epochs"])
        state.weights = state.weights.cpu()
        return state

    def cached(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A part of the run that is done once, on the CPU: from its file where there is one."""
        if self.folder is None:
            return make()
        file = f"{name}.pt"
        if not (self.folder / file).exists():
            content = with_checksum("state", make())
            save_checkpoint(self.folder / file, content | {"run": dict(self.run)})
        return self._read(file, torch.device("cpu"))

    def remove(self, name: str) -> None:
        """Delete a folder of parts that the run no longer needs."""
        if self.folder is not None:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def _read(self, name: str, device: torch.device) -> dict[str, Any]:
        assert self.folder is not None
        file = self.folder / name
        with self._named(name):
            found = load_checkpoint(file, device)
            there = found["run"]
            for key in (key for key in self.run if there.get(key) != self.run[key]):
                raise UsageError(
                    f"{file} is of another run: its {key} is {there.get(key)}, here "
                    f"{self.run[key]}. {REMEDY}"
                )
            return check_checksum("state", found)

    def _named(self, name: str) -> AbstractContextManager[None]:
        assert self.folder is not None
        return name_damaged_file(self.folder / name, REMEDY)
