"""Calls of a teacher's hooks on other parameters and buffers than its own."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import reduce
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from tutelage.errors import UsageError
from tutelage.functional.replay import replay
from tutelage.functional.trees import dtypes_in, in_dtype
from tutelage.precision import FULL, autocast_now
from tutelage.teacher import constants_of, implements
from tutelage.types import Batch, Observation, Params, PreparedBatch, as_prepared

_CALLED: WeakKeyDictionary[nn.Module, set[str]] = WeakKeyDictionary()
"""hooks whose first call has left constant buffers as they are"""


class _HookCall(nn.Module):
    """A module whose ``forward`` is a teacher's hook, for ``functional_call``."""

    def __init__(self, teacher: nn.Module, method: str) -> None:
        super().__init__()
        self.teacher = teacher
        self.method = method

    def forward(self, *args: object) -> object:
        """Call the method."""
        return getattr(self.teacher, self.method)(*args)


def prepare(teacher: nn.Module, params: Params, batch: Batch) -> PreparedBatch:
    """Call ``prepare``; the batch itself where the teacher has none."""
    buffers = batch.teacher_buffers
    if not implements(teacher, "prepare"):
        return as_prepared(batch)._replace(teacher_buffers=buffers)
    buffers_out: Params = {}
    prepared = _call(
        teacher, "prepare", params, batch, buffers=buffers or {}, buffers_out=buffers_out
    )
    if buffers_out:
        buffers = {**(buffers or {}), **buffers_out}
    prepared = prepared._replace(autocast=batch.autocast, teacher_buffers=buffers)
    if prepared.inputs.dtype == batch.inputs.dtype or not batch.inputs.is_floating_point():
        return prepared
    return prepared._replace(inputs=prepared.inputs.to(batch.inputs.dtype))


def weigh(
    teacher: nn.Module,
    params: Params,
    prepared: PreparedBatch,
    observation: Observation,
    buffers_out: Params | None = None,
) -> Tensor:
    """Call ``weigh``; ones where the teacher has none."""
    if not implements(teacher, "weigh"):
        return torch.ones_like(observation.losses)
    return _call_after_forward(teacher, "weigh", params, prepared, observation, buffers_out)


def row_losses(
    teacher: nn.Module,
    params: Params,
    prepared: PreparedBatch,
    observation: Observation,
    buffers_out: Params | None = None,
) -> Tensor:
    """Call ``row_losses``; the objective's losses where the teacher has none."""
    if not implements(teacher, "row_losses"):
        return observation.losses
    return _call_after_forward(
        teacher, "row_losses", params, prepared, observation, buffers_out
    )


def log_prob(
    teacher: nn.Module, params: Params, prepared: PreparedBatch, observation: Observation
) -> Tensor:
    """Call ``log_prob``."""
    if not implements(teacher, "log_prob"):
        raise ValueError(
            f"{type(teacher).__name__} samples nothing, so that a reward cannot teach it: give "
            "its prepared batches a log_prob, or use a signal that differentiates, such as "
            "Lookahead."
        )
    return _call_after_forward(teacher, "log_prob", params, prepared, observation, None)


def entropy(teacher: nn.Module, params: Params) -> Tensor:
    """Call ``entropy``."""
    if not implements(teacher, "entropy"):
        raise ValueError(
            f"{type(teacher).__name__} has no method entropy() to be rewarded for: "
            "give entropy=0."
        )
    return _call(teacher, "entropy", params)


def _call_after_forward(
    teacher: nn.Module,
    hook: str,
    params: Params,
    prepared: PreparedBatch,
    observation: Observation,
    buffers_out: Params | None,
) -> Tensor:
    # with the buffers that ``prepare`` left, and those of the teacher's memory
    buffers = {**(prepared.teacher_buffers or {}), **observation.progress.memory}
    return _call(
        teacher, hook, params, prepared, observation, buffers=buffers, buffers_out=buffers_out
    )


def _call(
    teacher: nn.Module,
    hook: str,
    params: Params,
    *args: Batch | PreparedBatch | Observation,
    buffers: Mapping[str, Tensor] = MappingProxyType({}),
    buffers_out: Params | None = None,
) -> Any:
    """Call a hook on other parameters and buffers than the teacher's own.

    Buffers that the hook writes to go to ``buffers_out``; the teacher itself is unchanged.
    Constant buffers are copied for a hook's first call alone; a hook that writes to one is
    refused.
    """
    dtype = _wider(teacher, params, args)
    if dtype is not None:
        args = tuple(in_dtype(record, dtype) for record in args)
        params = dict(teacher.named_parameters()) | params
        params = {name: p.to(dtype) for name, p in params.items()}
    if not params and next(teacher.buffers(), None) is None:
        return getattr(teacher, hook)(*args)
    before = dict(teacher.named_buffers()) | dict(buffers)
    constant = constants_of(teacher)
    first = bool(constant) and hook not in _CALLED.get(teacher, ())
    copies = {
        name: b if name in constant and not (first or b.is_inference()) else b.clone()
        for name, b in before.items()
    }
    if dtype is not None:
        copies = {k: b.to(dtype) if b.is_floating_point() else b for k, b in copies.items()}
    writes = (first or buffers_out is not None) and not torch.is_inference_mode_enabled()
    versions = {name: b._version for name, b in copies.items()} if writes else {}
    untraced = _running_statistics(teacher) if writes else frozenset()
    state = {f"teacher.{name}": x for name, x in (params | copies).items()}
    found = replay(_HookCall(teacher, hook), state, args, context=lambda _: nullcontext())
    for name, version in versions.items():
        after = state[f"teacher.{name}"]
        written = after is not copies[name] or after._version != version or name in untraced
        if written and name in constant:
            raise UsageError(
                f"{type(teacher).__name__}.{hook} writes to the buffer {name}, which "
                "constant_buffers names: leave it out there."
                + ("" if first else " The buffer was written to before this was noticed.")
            )
        if buffers_out is not None and written:
            buffers_out[name] = after.detach().to(before[name].dtype)
    if first and writes:
        _CALLED.setdefault(teacher, set()).add(hook)
    return found


def _running_statistics(teacher: nn.Module) -> frozenset[str]:
    # torch writes these without a trace in the tensor's version
    return frozenset(
        f"{name}.{statistic}" if name else statistic
        for name, part in teacher.named_modules()
        if isinstance(part, _NormBase) and part.training and part.track_running_stats
        for statistic in ("running_mean", "running_var")
    )


def _wider(
    teacher: nn.Module, params: Params, args: Sequence[Batch | PreparedBatch | Observation]
) -> torch.dtype | None:
    # the wider dtype of teacher and student, if anything is narrower; None under autocast
    first = next(iter(params.values()), None) if params else next(teacher.parameters(), None)
    if first is None or autocast_now(first.device) != FULL:
        return None
    outputs = [record for record in args if isinstance(record, Observation)]
    dtypes = {first.dtype}.union(*(dtypes_in(record) for record in outputs or args))
    wider = reduce(torch.promote_types, dtypes)
    others = dtypes.union(*(dtypes_in(record) for record in args)) - {wider}
    return wider if any(torch.promote_types(d, wider) == wider for d in others) else None
