"""``Teaching``: teacher, signal and held-out data for any training loop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tutelage.data.loaders import as_batch, without_ids
from tutelage.distributed.groups import Processes
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.signals import Signal
from tutelage.storage.state_dicts import load_module
from tutelage.training.forward import StepResult
from tutelage.training.step_strategy import PlainStep, StepStrategy
from tutelage.training.tutor import Tutor
from tutelage.types import Batch


@dataclass(frozen=True)
class Teaching:
    """The teacher of a training loop; see ``tutelage.Tutor``.

    The teacher stays outside of the student's module, so that wrappers, optimisers and
    checkpoints of a framework see the student alone.

    Raises:
        ValueError: If only one of signal and teacher optimiser is given.
    """

    teacher: nn.Module
    teacher_optimizer: Optimizer | None = None
    """None: the teacher is fixed, such as a stored commentary or a baseline"""
    signal: Signal | None = None
    """estimates the teacher's gradient; needed if and only if it has an optimiser"""
    held_out: Callable[[int], Any] | None = None
    """from a number to held-out examples, such as ``data.RandomBatches``; of several
    processes, each gives numbers of its own"""
    teacher_every: int = 1
    aggregate: int = 1
    objective: Objective | None = None
    """logits and targets to losses; None: cross entropy, or what the framework trains by"""
    metric: Objective | None = None
    max_norm: float | None = None
    """norm to which the student's gradient is clipped; None: it is not"""
    micro_batch: int | None = None
    """rows that the student sees at a time (gradient accumulation); None: all"""
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.signal is None) != (self.teacher_optimizer is None):
            raise ValueError("Give both signal and teacher_optimizer, or neither.")

    def tutor(
        self,
        student: nn.Module,
        optimizer: Optimizer,
        *,
        total_steps: int | None = None,
        objective: Objective = cross_entropy,
        step_strategy: StepStrategy | None = None,
        processes: Processes | None = None,
    ) -> Tutor:
        """Make a tutor of a student, and move the teacher to its device.

        Args:
            student: The student.
            optimizer: Its optimiser.
            total_steps: Student steps of the whole run, where that is known.
            objective: What it is trained by unless the teaching has its own.
            step_strategy: How a step is taken; None: ``PlainStep(max_norm)``.
            processes: Those that train it together; None: those of its wrapper.

        Returns:
            The tutor, at its first step.
        """
        self.teacher.to(next(student.parameters()).device)
        if self.teacher_optimizer is not None:  # what it remembers moves along
            self.teacher_optimizer.load_state_dict(self.teacher_optimizer.state_dict())
        return Tutor(
            student,
            optimizer,
            self.teacher,
            self.teacher_optimizer,
            signal=self.signal,
            teacher_every=self.teacher_every,
            aggregate=self.aggregate,
            total_steps=total_steps,
            objective=self.objective or objective,
            metric=self.metric,
            seed=self.seed,
            step_strategy=PlainStep(self.max_norm) if step_strategy is None else step_strategy,
            processes=processes,
            micro_batch=self.micro_batch,
        )

    def state_dict(self) -> dict[str, Any]:
        """The state of the teacher and its optimiser."""
        optimizer = self.teacher_optimizer
        learner = {} if optimizer is None else {"optimizer": optimizer.state_dict()}
        return {"teacher": self.teacher.state_dict(), "teacher_updater": learner}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state of ``state_dict``."""
        load_module(self.teacher, state["teacher"], "teacher")
        if self.teacher_optimizer is not None and "optimizer" in state["teacher_updater"]:
            self.teacher_optimizer.load_state_dict(state["teacher_updater"]["optimizer"])

    def step(
        self,
        tutor: Tutor,
        loaded: Batch | Sequence[Tensor],
        as_held_out: Callable[[Any], Batch] = without_ids,
    ) -> StepResult:
        """Take a student step, and draw a held-out batch where one is due.

        Args:
            tutor: The tutor.
            loaded: A batch where the student is, or inputs, targets and ids from a loader.
            as_held_out: From what was drawn to a batch.

        Returns:
            What happened.
        """
        device, together = tutor.problem.student.device, tutor.processes
        batch = _moved(as_batch(loaded), device)
        if not tutor.wants_held_out or self.held_out is None:
            return tutor.step(batch)  # says what is missing
        number = tutor.steps * together.size + together.rank
        held_out = as_held_out(self.held_out(number))
        return tutor.step(batch, _moved(held_out, device))


@dataclass(frozen=True)
class TeachingState:
    """A tutor's state without student and optimiser, which a framework keeps."""

    tutor: Tutor

    def state_dict(self) -> dict[str, Any]:
        """The tutor's state without student and optimiser."""
        state = self.tutor.state_dict()
        return {k: v for k, v in state.items() if k not in ("student", "optimizer")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state of ``state_dict``."""
        student = self.tutor.student.state_dict()
        own = {"student": student, "optimizer": self.tutor.optimizer.state_dict()}
        self.tutor.load_state_dict({**state, **own})


def _moved(batch: Batch, device: torch.device) -> Batch:
    inputs, targets, ids = (part.to(device) for part in batch[:3])
    return batch._replace(inputs=inputs, targets=targets, ids=ids)
