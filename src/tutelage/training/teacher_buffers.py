"""The teacher's buffers at real steps, and its memory of earlier steps.

A teacher, or any part of one, names them in its trait ``memory`` and gives their new values by
its method ``remember``. A recomputed step sees them as they were, since they travel
with its ``Progress``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UsageError
from tutelage.teacher import constants_of
from tutelage.types import Batch, Observation, Params, PreparedBatch, Step, StudentState


class BufferCopy(NamedTuple):
    """A buffer and a copy of its values."""

    buffer: Tensor
    version: int
    """how often the buffer had been written to"""
    values: Tensor


class BufferCopies:
    """Copies of a teacher's buffers, renewed only after writes."""

    def __init__(self) -> None:
        self._known: dict[str, BufferCopy] = {}

    def of(self, teacher: nn.Module) -> Params | None:
        """Copies of the buffers as they are, without those that are constant."""
        constant = constants_of(teacher)
        for name, buffer in teacher.named_buffers():
            if name in constant:
                continue
            version, known = buffer._version, self._known.get(name)
            if known is None or known.buffer is not buffer or known.version != version:
                values = buffer.detach().clone()
                self._known[name] = BufferCopy(buffer, version, values)
        return {name: known.values for name, known in self._known.items()} or None


@torch.no_grad()
def update_buffers(
    teacher: nn.Module, batch: Batch, prepared: PreparedBatch, weighed: Mapping[str, Tensor]
) -> None:
    """Write to the buffers what the hooks of a real step wrote to copies."""
    before = batch.teacher_buffers or {}
    by_prepare = (prepared.teacher_buffers or {}).items()
    written = {name: b for name, b in by_prepare if b is not before.get(name)}
    for name, values in {**written, **weighed}.items():
        buffer = teacher.get_buffer(name)
        if buffer.shape == values.shape:
            buffer.copy_(values)
        else:
            part, _, local = name.rpartition(".")
            teacher.get_submodule(part)._buffers[local] = values.clone()


@torch.no_grad()
def remember(teacher: nn.Module, prepared: PreparedBatch, observation: Observation) -> None:
    """Update the buffers of ``memory`` by ``remember``, with finite values only."""
    for part in teacher.modules():
        if memory_names(part):
            renew = cast(Callable[..., Mapping[str, Tensor]], part.remember)
            for name, value in renew(prepared, observation).items():
                buffer = part.get_buffer(name)
                value = value.to(buffer)
                buffer.copy_(value.where(value.isfinite(), buffer))


def has_memory(teacher: nn.Module) -> bool:
    """Whether a teacher, or a part of it, has a memory."""
    return any(memory_names(part) for part in teacher.modules())


def memory_of(teacher: nn.Module) -> Params:
    """Copies of the buffers of ``memory``."""
    return {
        f"{at}.{name}" if at else name: part.get_buffer(name).clone()
        for at, part in teacher.named_modules()
        for name in memory_names(part)
    }


def require_no_memory(teacher: nn.Module) -> None:
    """Raise for a teacher with a memory, which only real steps update."""
    if names := ", ".join(memory_of(teacher)):
        raise UsageError(
            f"{type(teacher).__name__} remembers earlier steps ({names}), but whole runs that "
            "a signal takes are not remembered: teach with a Tutor."
        )


@torch.no_grad()
def require_no_writes(
    problem: BilevelProblem, state: StudentState, teacher_params: Params, step: Step
) -> None:
    """Raise for a teacher whose hooks write to buffers, which only real steps renew.

    Statistics of normalisation are left out: in training mode no hook depends on them.
    """
    statistics = {
        f"{at}.{name}" if at else name
        for at, part in problem.teacher.named_modules()
        if isinstance(part, _NormBase)
        for name in part._buffers
    }
    if not {name for name, _ in problem.teacher.named_buffers()} - statistics:
        return
    written: Params = {}
    prepared, seed = problem.prepare(teacher_params, step.batch), step.batch.seed
    observation, _ = problem.observe(state, prepared, step)
    problem.weights(teacher_params, prepared, observation, seed, buffers_out=written)
    problem.row_losses(teacher_params, prepared, observation, seed, buffers_out=written)
    if names := {*(prepared.teacher_buffers or {}), *written} - statistics:
        raise UsageError(
            f"{type(problem.teacher).__name__} writes to its buffers in each step "
            f"({', '.join(sorted(names))}), but in whole runs that a signal takes they stay as "
            "they are: teach with a Tutor."
        )


def memory_names(part: nn.Module) -> Sequence[str]:
    """The names of a module's own buffers in ``memory``."""
    return getattr(part, "memory", ())
