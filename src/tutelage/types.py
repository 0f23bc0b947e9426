"""The records that travel between data, teacher, student and learning signal."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

Params = dict[str, Tensor]
Outputs = Tensor | tuple[Tensor, ...]
"""what a student gives: logits [L, C], or a tuple that begins with them"""


class Batch(NamedTuple):
    """One minibatch of B examples, before the teacher sees it."""

    inputs: Tensor
    """[B, ...]"""
    targets: Tensor
    """[B] class ids, or [B, C] soft labels"""
    ids: Tensor
    """[B] int64: stable identities of the examples in their data set"""
    seed: int = 0
    """augmentation was drawn from it; the tutor sets its own for what a step draws"""
    autocast: torch.dtype = torch.float32
    """to what ``torch.autocast`` casts where it is seen, as the tutor finds it; float32: off"""
    teacher_buffers: Mapping[str, Tensor] | None = None
    """copies of the teacher's buffers before the step, set by the tutor; None: as they are"""


class Lesson(NamedTuple):
    """What the teacher shows the student in place of a batch: L rows, L = B unless copied."""

    inputs: Tensor
    """[L, ...]"""
    targets: Tensor
    """[L] class ids, or [L, C] soft labels"""
    ids: Tensor
    """[L] int64: the example each row came from"""
    group: Tensor
    """[L] int64 in 0..B-1: the place in the batch of the example each row came from"""
    log_prob: Tensor | None = None
    """[B] log-probability of each example's sampled action; None where nothing is sampled"""
    aux: Tensor | None = None
    """[L, ...] auxiliary targets; None where the teacher gives none"""
    autocast: torch.dtype = torch.float32
    """the batch's"""
    teacher_buffers: Mapping[str, Tensor] | None = None
    """the batch's, with what the teacher's ``prepare`` made of them"""


class Progress(NamedTuple):
    """How far the student's training has come."""

    fraction: float = 0.0
    """steps taken / steps of the whole run; above 1 where training goes on after it"""
    mean_loss: float = 0.0
    """average training loss so far, nats"""
    best_accuracy: float = 0.0
    """best held-out accuracy so far, in 0..1"""
    memory: Mapping[str, Tensor] = MappingProxyType({})
    """what the teacher remembers of the steps before this one, by the names of its buffers"""


class Observation(NamedTuple):
    """What the student's own forward pass revealed about a lesson of L rows."""

    losses: Tensor
    """[L]"""
    logits: Tensor
    """[L, C]"""
    features: Mapping[str, Tensor]
    """output of every tapped module, [L, ...]"""
    progress: Progress
    alignments: Tensor | None = None
    """[L]: inner product of each row's gradient with the held-out gradient, both at the student
    before the step; None but at real steps of a teacher that uses them"""


class StudentState(NamedTuple):
    """Everything an update rule needs to take one more step."""

    params: Params
    """trainable parameters, keyed by their name in the student"""
    buffers: Params
    """running statistics and the like"""
    slots: dict[str, Params]
    """the optimiser's memory by its name there: ``slots["momentum_buffer"]["fc.weight"]``"""


class Step(NamedTuple):
    """One student step that was taken, with what is needed to take it again."""

    batch: Batch
    progress: Progress
    settings: Mapping[str, Mapping[str, float | bool]]
    """the optimiser's settings at this step for each parameter that it moved"""

    def moving(self, names: Collection[str]) -> "Step":
        """The step where it is found to move some of these parameters only.

        Args:
            names: Those that its loss reaches, among those of ``settings``.

        Returns:
            The step itself where it moves them all.
        """
        if len(names) == len(self.settings):
            return self
        return self._replace(settings={k: self.settings[k] for k in names})


@runtime_checkable
class Recorded(Protocol):
    """What a real step's passes revealed about every row's own gradient."""

    gradient: Params
    """of the loss that the student descended"""

    def dots(self, direction: Params, coefficients: Tensor) -> Tensor:
        """``<d l_i / d theta, direction>`` [L]; ``coefficients`` [L] are ``d loss / d l_i``."""
        ...


class StepObservation(NamedTuple):
    """A real step as it was seen while it was taken."""

    lesson: Lesson
    observation: Observation
    """detached"""
    recorded: Recorded | None
    """its passes, where the signal records them"""


class HeldOutLoss(NamedTuple):
    """The verdict on a student."""

    loss: Tensor
    """scalar"""
    student: Params
    """gradient of the loss with respect to the student's parameters"""
    teacher: Params
    """with respect to the teacher's, where these act on it directly; a missing one is zero"""


@dataclass(frozen=True)
class Window:
    """The last steps of a student's training, which an estimate looks back over."""

    start: StudentState | None
    """before the first of ``steps``; None where the signal rebuilds it from ``end``"""
    steps: Sequence[Step]
    end: StudentState
    """after the last of ``steps``"""
    observed: StepObservation | None = None
    """of the last step, where the signal looks at it"""
    held_out_loss: HeldOutLoss | None = None
    """on ``end``, where it is known without a held-out batch"""
    gradient: Params | None = None
    """of the loss at the last step, where the optimiser has yet to take it"""
    entries: Params | None = None
    """some of the parameters' before the first step, where the signal rebuilds the start"""


class Estimate(NamedTuple):
    """A hypergradient, and the held-out loss it lowers.

    It follows the teacher's parameters through every step of its window; each step's batch,
    settings, random numbers and plain numbers (``Progress``) are held fixed. Where a teacher
    weighs by what the student reveals and is not ``deep``, it does not follow what an earlier
    step does to the weights of a later one; ``facts`` has ``weights_fixed`` then.
    """

    grad: Params
    """gradient of the held-out loss, keyed and shaped like the teacher's parameters"""
    held_out_loss: Tensor
    """scalar"""
    facts: Mapping[str, float] = MappingProxyType({})
    """what the signal measured of itself, by name; each signal says what"""


def as_lesson(batch: Batch) -> Lesson:
    """The batch itself as a lesson: what a teacher that only weighs hands on.

    Args:
        batch: A batch of B examples.

    Returns:
        A lesson of the same B rows.
    """
    rows = torch.arange(len(batch.ids), device=batch.ids.device)
    return Lesson(batch.inputs, batch.targets, batch.ids, rows, autocast=batch.autocast)
