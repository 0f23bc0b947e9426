"""Records of batches, observations, steps and windows."""

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
    """A minibatch of B examples, before the teacher sees it."""

    inputs: Tensor
    """[B, ...]"""
    targets: Tensor
    """[B] class ids, or [B, C] soft labels"""
    ids: Tensor
    """[B] int64: stable identities of the examples in their data set"""
    seed: int = 0
    """seed of the step's random numbers, set by the tutor"""
    autocast: torch.dtype = torch.float32
    """type of ``torch.autocast`` at the step, set by the tutor; float32: off"""
    teacher_buffers: Mapping[str, Tensor] | None = None
    """copies of the teacher's buffers before the step, set by the tutor"""


class PreparedBatch(NamedTuple):
    """What the student sees of a batch: L rows, L = B unless copied."""

    inputs: Tensor
    """[L, ...]"""
    targets: Tensor
    """[L] class ids, or [L, C] soft labels"""
    ids: Tensor
    """[L] int64: ids of the examples"""
    group: Tensor
    """[L] int64 in 0..B-1: the index in the batch of each row's example"""
    log_prob: Tensor | None = None
    """[B] log-probability of each example's sampled action; None where nothing is sampled"""
    aux: Tensor | None = None
    """[L, ...] auxiliary targets; None where the teacher gives none"""
    autocast: torch.dtype = torch.float32
    """the batch's"""
    teacher_buffers: Mapping[str, Tensor] | None = None
    """the batch's, updated by ``prepare``"""


class Progress(NamedTuple):
    """How far the student's training has come."""

    fraction: float = 0.0
    """steps taken / ``total_steps``; above 1 for later steps"""
    mean_loss: float = 0.0
    """average training loss so far, nats"""
    best_accuracy: float = 0.0
    """best held-out accuracy so far, in 0..1"""
    memory: Mapping[str, Tensor] = MappingProxyType({})
    """the teacher's buffers of ``Teacher.memory`` before the step, by name"""


class Observation(NamedTuple):
    """The student's outputs on a prepared batch of L rows."""

    losses: Tensor
    """[L]"""
    logits: Tensor
    """[L, C]"""
    features: Mapping[str, Tensor]
    """output of every tapped module, [L, ...]"""
    progress: Progress
    alignments: Tensor | None = None
    """[L]: inner product of each row's gradient with the held-out gradient, before the step;
    only at real steps of a teacher with ``uses_alignments``"""


class StudentState(NamedTuple):
    """Parameters, buffers and optimiser state of a student."""

    params: Params
    """trainable parameters, keyed by their name in the student"""
    buffers: Params
    """such as running statistics"""
    slots: dict[str, Params]
    """optimiser state: ``slots["momentum_buffer"]["fc.weight"]``"""


class Step(NamedTuple):
    """A student step, with what is needed to recompute it."""

    batch: Batch
    progress: Progress
    settings: Mapping[str, Mapping[str, float | bool]]
    """the optimiser's settings, by the name of each parameter that the step moves"""

    def moving(self, names: Collection[str]) -> "Step":
        """The step restricted to some of the parameters that it moves."""
        if len(names) == len(self.settings):
            return self
        return self._replace(settings={k: self.settings[k] for k in names})


@runtime_checkable
class RecordedPasses(Protocol):
    """Per-example products of a real step's passes."""

    gradient: Params
    """of the training loss"""

    def dots(self, direction: Params, coefficients: Tensor) -> Tensor:
        """``<d l_i / d theta, direction>`` [L]; ``coefficients`` [L] are ``d loss / d l_i``."""
        ...


class StepObservation(NamedTuple):
    """PreparedBatch, observation and recording of a real step."""

    prepared: PreparedBatch
    observation: Observation
    """detached"""
    recorded: RecordedPasses | None
    """recorded passes, where the signal uses them"""


class HeldOutLoss(NamedTuple):
    """The held-out loss and its gradients."""

    loss: Tensor
    """scalar"""
    student: Params
    """gradient of the loss with respect to the student's parameters"""
    teacher: Params
    """direct gradient with respect to the teacher's; a missing one is zero"""


@dataclass(frozen=True)
class Window:
    """The last steps of a student's training, through which a signal differentiates."""

    start: StudentState | None
    """before the first of ``steps``; None where the signal reconstructs it from ``end``"""
    steps: Sequence[Step]
    end: StudentState
    """after the last of ``steps``"""
    observed: StepObservation | None = None
    """of the last step, where the signal uses its passes"""
    held_out_loss: HeldOutLoss | None = None
    """on ``end``, where it is known without a held-out batch"""
    gradient: Params | None = None
    """of the training loss at the last step, if the step is tentative"""
    sample: StudentState | None = None
    """some entries of parameters and momentum buffers before the first step, and all buffers,
    where the signal reconstructs the rest; a momentum buffer of zeros may be missing"""
    costly_checks: bool = False
    """whether it is checked by another pass through one of its steps"""


class Estimate(NamedTuple):
    """A hypergradient and its held-out loss.

    It includes the paths of the teacher's parameters through every step of the window, with
    each step's batch, settings, random numbers and ``Progress`` fixed. If the teacher weighs by
    the student's outputs and is not ``attached``, the effect of earlier steps on later weights
    is left out, and ``facts`` has ``weights_fixed``. Where the student, the objective or the
    teacher's losses detach a path, or a hook edits the gradient of one, it has ``detached``.
    """

    grad: Params
    """gradient of the held-out loss, keyed and shaped like the teacher's parameters"""
    held_out_loss: Tensor
    """scalar"""
    facts: Mapping[str, float] = MappingProxyType({})
    """diagnostics by name; see each signal"""
    end: StudentState | None = None
    """the student after the recomputed steps, where the signal recomputes all from the start"""


def as_prepared(batch: Batch) -> PreparedBatch:
    """The batch itself as one that is prepared."""
    rows = torch.arange(len(batch.ids), device=batch.ids.device)
    return PreparedBatch(batch.inputs, batch.targets, batch.ids, rows, autocast=batch.autocast)
