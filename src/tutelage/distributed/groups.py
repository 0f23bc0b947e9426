"""Processes that train one student together: ``SingleProcess`` and ``Group``."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tutelage.distributed.fsdp import group_of, is_sharded
from tutelage.distributed.wrappers import data_parallel, uncompiled
from tutelage.errors import UnsupportedStudentError
from tutelage.types import Batch, Params


@runtime_checkable
class Processes(Protocol):
    """Sums over the processes that train one student.

    Every process has its share of the rows of each batch. A loss is a share, too: the shares of
    all processes add up to the loss over all rows, and so do gradients and products of shares.
    """

    @property
    def averages(self) -> bool:
        """Whether the student's wrapper averages gradients over processes."""
        ...

    @property
    def sync_batch_norm(self) -> bool:
        """Whether batch normalisation is by the rows of all processes."""
        ...

    @property
    def rank(self) -> int:
        """Of this process, from 0."""
        ...

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    def all_reduce(self, x: Tensor) -> Tensor:
        """The sum of a tensor over all processes, differentiable any number of times."""
        ...

    def all_reduce_params(self, params: Params) -> Params:
        """The same for named tensors, by one all-reduce."""
        ...


@dataclass(frozen=True)
class SingleProcess:
    """A single process, whose sums are its own values."""

    rank: int = 0
    averages: bool = False
    size: int = 1
    sync_batch_norm: bool = False

    def all_reduce(self, x: Tensor) -> Tensor:
        """The tensor itself."""
        return x

    def all_reduce_params(self, params: Params) -> Params:
        """The tensors themselves."""
        return params


ALONE = SingleProcess()


@dataclass(frozen=True)
class Group:
    """The processes of a ``torch.distributed`` group.

    Args:
        group: None: all.
        averages: Whether the student's wrapper leaves the mean of all processes' gradients
            behind, as ``DistributedDataParallel`` and ``fully_shard`` do. False: nothing does.
        sync_batch_norm: Whether the student's batch normalisation, in a tutor's steps, is by
            the statistics of all processes' rows, as one process has them. Costs an all-reduce
            for each layer and pass, also in derivatives. False: ``SyncBatchNorm`` alone is.
    """

    group: dist.ProcessGroup | None = None
    averages: bool = True
    sync_batch_norm: bool = False

    @property
    def rank(self) -> int:
        """Of this process, from 0."""
        return dist.get_rank(self.group)

    @property
    def size(self) -> int:
        """How many there are."""
        return dist.get_world_size(self.group)

    def all_reduce(self, x: Tensor) -> Tensor:
        """The sum over all processes, by one all-reduce."""
        found = _AllReduce.apply(x, self.group)
        assert isinstance(found, Tensor)
        return found

    def all_reduce_params(self, params: Params) -> Params:
        """The sums over all processes, by one all-reduce for each dtype."""
        sums: Params = {}
        for dtype in sorted({x.dtype for x in params.values()}, key=str):
            names = [name for name, x in params.items() if x.dtype == dtype]
            flat = self.all_reduce(torch.cat([params[name].reshape(-1) for name in names]))
            parts = flat.split([params[name].numel() for name in names])
            sums |= {k: x.view(params[k].shape) for k, x in zip(names, parts, strict=True)}
        return {name: sums[name] for name in params}


class _AllReduce(torch.autograd.Function):
    """A differentiable sum over processes, whose backward pass is a sum, too."""

    @staticmethod
    def forward(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        total = x.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.group = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, None]:
        return _AllReduce.apply(grads[0], ctx.group), None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return _AllReduce.apply(tangents[0], ctx.group)


def processes_of(student: nn.Module) -> Processes:
    """The processes of a student's wrapper."""
    inner, wrapper = uncompiled(student), data_parallel(student)
    if wrapper is not None:
        return Group(wrapper.process_group)
    if is_sharded(inner):
        return Group(group_of(inner))
    for part in inner.modules():
        name = type(part).__name__
        if isinstance(part, DistributedDataParallel) or name == "FullyShardedDataParallel":
            raise UnsupportedStudentError(
                f"The student holds a {name}: wrap all of it, by DistributedDataParallel or "
                "fully_shard, and give that to the tutor."
            )
    return SingleProcess()


_SHARING: ContextVar[Processes] = ContextVar("_SHARING", default=ALONE)
"""those that have rows of the batch that a teacher is given"""


@contextmanager
def shared_by(processes: Processes) -> Iterator[None]:
    """Let ``batch_mean`` inside be over the rows of all these processes."""
    token = _SHARING.set(processes)
    try:
        yield
    finally:
        _SHARING.reset(token)


def is_batch_distributed() -> bool:
    """Whether several processes have rows of the present batch."""
    return _SHARING.get().size > 1


def batch_mean(values: Tensor) -> Tensor:
    """The mean of values [L] over all rows of the batch, 0 of none; all processes call it."""
    processes = _SHARING.get()
    if processes.size == 1 and len(values):
        return values.mean()
    total, rows = processes.all_reduce(
        torch.stack([values.sum(), values.new_tensor(len(values))])
    )
    return total / rows.clamp(min=1)


def even_batches(
    batches: Iterable[Batch], processes: Processes, device: torch.device | str = "cpu"
) -> Iterator[Batch]:
    """Batches of one process, followed by empty ones while another process has more.

    So all processes take the same number of steps. An empty batch changes neither loss nor
    gradient. Costs an all-reduce of two numbers a step.

    Args:
        batches: The batches of this process.
        processes: The group that trains the student, ``tutor.processes``.
        device: Where the two numbers are; ``"cuda"`` with NCCL.

    Yields:
        As many batches as the process with the most batches has.

    Raises:
        ValueError: If a process has no batch at all.
    """
    own, last = iter(batches), None
    while True:
        batch = next(own, None)
        flags = [batch is not None, batch is None and last is None]
        some, missing = processes.all_reduce(
            torch.tensor(flags, dtype=torch.float32, device=device)
        )
        if float(some) and float(missing):
            raise ValueError(
                f"{int(missing)} of {processes.size} processes have no batch at all, so that "
                "the shape of an empty one is not known: give every process one at least."
            )
        if not float(some):
            return
        if batch is not None:
            last = batch
        else:
            assert last is not None
            last = empty_like(last)
        yield last


def empty_like(batch: Batch) -> Batch:
    """An empty batch of the same shapes."""
    none = (batch.inputs[:0], batch.targets[:0], batch.ids[:0])
    return batch._replace(inputs=none[0], targets=none[1], ids=none[2])
