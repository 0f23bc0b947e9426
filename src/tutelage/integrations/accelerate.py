"""Accelerate: a tutor of what an ``Accelerator`` has prepared."""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from tutelage.errors import MissingExtraError, UsageError
from tutelage.integrations.checkpoint_folder import read_tutor_file
from tutelage.integrations.teaching import Teaching, TeachingState
from tutelage.storage.checkpoint import name_damaged_file, save_checkpoint
from tutelage.training.step_strategy import require_norm, scale_gradient
from tutelage.training.tutor import Tutor

try:
    from accelerate import Accelerator
    from accelerate.optimizer import AcceleratedOptimizer
except ImportError as error:
    raise MissingExtraError("accelerate", "accelerate") from error


def taught(
    accelerator: Accelerator,
    student: nn.Module,
    optimizer: Optimizer,
    teaching: Teaching,
    *,
    total_steps: int | None = None,
) -> Tutor:
    """Make a tutor of a prepared student, saved and loaded with the accelerator's state.

    Args:
        accelerator: Which prepared both.
        student: As ``accelerator.prepare`` gave it.
        optimizer: As ``accelerator.prepare`` gave it.
        teaching: Teacher, signal and held-out data.
        total_steps: Student steps of the whole run, where that is known.

    Returns:
        The tutor: its ``step`` takes the place of zero_grad, backward, clipping and step.

    Raises:
        UsageError: If gradients are accumulated, or the optimiser was not prepared.
    """
    if accelerator.gradient_accumulation_steps != 1:
        raise UsageError(
            f"gradient_accumulation_steps is {accelerator.gradient_accumulation_steps}, but a "
            "taught step is taken on one batch: set it to 1, load so much larger batches, and "
            "give Teaching(micro_batch=...), the rows that the student sees at a time."
        )
    step_strategy = AcceleratedStep(accelerator, require_prepared(optimizer), teaching.max_norm)
    tutor = teaching.tutor(
        student,
        step_strategy.optimizer.optimizer,
        total_steps=total_steps,
        step_strategy=step_strategy,
    )
    _keep(accelerator, tutor)
    return tutor


def _keep(accelerator: Accelerator, tutor: Tutor) -> None:
    number = len(accelerator._custom_objects)
    kept = CheckpointFile(tutor, f"tutelage-{number}.{accelerator.process_index}.pt")
    accelerator.register_save_state_pre_hook(kept.write)
    accelerator.register_load_state_pre_hook(kept.read)
    accelerator.register_for_checkpointing(kept)


@dataclass
class CheckpointFile:
    """A tutor's file in the checkpoint folders of an accelerator, one for each process.

    What Accelerate itself keeps of a registered object, one pickle of the main process, names
    that file; it is loaded after model and optimiser.
    """

    tutor: Tutor
    name: str
    """of the file"""
    found: Path | None = None
    """where it is, of the folder that is being read"""

    def write(self, _models: object, _weights: object, folder: str) -> None:
        """Write the file into the folder of a new checkpoint."""
        save_checkpoint(Path(folder) / self.name, TeachingState(self.tutor).state_dict())

    def read(self, _models: object, folder: str) -> None:
        """Find the file in the folder of a checkpoint that is about to be loaded."""
        self.found = Path(folder) / self.name
        for file in sorted(Path(folder).glob("custom_checkpoint_*.pkl")):
            with name_damaged_file(file, "Load another checkpoint."):
                zipfile.ZipFile(file).close()

    def state_dict(self) -> dict[str, Any]:
        """The file's name, which Accelerate keeps."""
        return {"file": self.name}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the file that was found."""
        if "file" in state:
            assert self.found is not None
            state = read_tutor_file(self.found)
        TeachingState(self.tutor).load_state_dict(state)


def require_prepared(optimizer: object) -> AcceleratedOptimizer:
    """Check that the accelerator prepared an optimiser."""
    if not isinstance(optimizer, AcceleratedOptimizer):
        raise UsageError(
            f"The {type(optimizer).__name__} was not prepared: give what "
            "accelerator.prepare(student, optimizer) returns."
        )
    return optimizer


@dataclass
class AcceleratedStep:
    """A step strategy by ``accelerator.backward`` and a prepared optimiser.

    The gradient is unscaled after the backward pass, and scaled again before the accelerator
    unscales it to clip or step; scales are powers of two, so that this is exact.

    Raises:
        ValueError: If ``max_norm`` is not positive.
    """

    accelerator: Accelerator
    optimizer: AcceleratedOptimizer
    """the student's"""
    max_norm: float | None = None
    """norm over all parameters to which the gradient is clipped; None: it is not"""
    norm: Tensor | None = field(default=None, init=False)
    """scalar: of the last gradient before it was clipped, where it is"""

    def __post_init__(self) -> None:
        require_norm(self.max_norm)

    @property
    def scales(self) -> bool:
        """Whether the accelerator scales the loss."""
        return self.accelerator.scaler is not None

    def backward(self, loss: Tensor, optimizer: Optimizer, *, retain_graph: bool) -> None:
        """Run the backward pass and unscale the gradient."""
        self.accelerator.backward(loss, retain_graph=retain_graph)
        if self.accelerator.scaler is not None:
            scale_gradient(optimizer, 1 / self.accelerator.scaler.get_scale())

    def step(self, optimizer: Optimizer) -> bool:
        """Clip, and step the prepared optimiser."""
        if self.accelerator.scaler is not None:
            scale_gradient(optimizer, self.accelerator.scaler.get_scale())
        if self.max_norm is not None:
            moved = [p for group in optimizer.param_groups for p in group["params"]]
            self.norm = self.accelerator.clip_grad_norm_(moved, self.max_norm)
        self.optimizer.step()
        return not self.optimizer.step_was_skipped
