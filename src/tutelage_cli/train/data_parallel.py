"""One student on several processes: the first runs the command, the others share its steps.

``torchrun`` starts the command several times. Only the first process reads data, decides,
prints and writes files. At the first step of a student it sends the others the tutor, and at
every step their rows of the batch; losses and gradients are summed over all processes.
"""

import os
import signal
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import joblib
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from tutelage.distributed import Group
from tutelage.errors import UsageError, first_line
from tutelage.teachers import (
    Aligned,
    DynamicLoss,
    FixedAugmentation,
    GivenWeights,
    InternalState,
    LearnedAugmentation,
    LossWeigher,
    OutOfFoldTargets,
    Plain,
)
from tutelage.training.forward import StepResult
from tutelage.training.tutor import Tutor
from tutelage.types import Batch
from tutelage_cli.runner.workers import handling, process_count, process_rank

WAIT = timedelta(days=1)
"""how long a process waits for others: the first one may read data or evaluate meanwhile"""
LOST = 1
"""exit code of a process that another one left, which has said why"""
SHARED = (
    Aligned,
    DynamicLoss,
    FixedAugmentation,
    GivenWeights,
    InternalState,
    LearnedAugmentation,
    LossWeigher,
    OutOfFoldTargets,
    Plain,
)
"""teachers whose result does not depend on which process has which rows"""


EMPTY_INPUTS_HINT = (
    "Write x.flatten(1) in place of x.view(len(x), -1), which fails where a process gets none "
    "of a batch of few examples; or start fewer processes"
)
"""the way out for a student that fails on inputs of no rows"""


class StepShare(NamedTuple):
    """What a process needs for its share of a step."""

    tutor: Any
    """a new one, wrapped for pickle; None: that of the step before"""
    batch: Batch
    held_out: Batch | None
    rates: list[float]
    """learning rate of each parameter group"""
    best_accuracy: float
    is_first: bool
    """whether it is the tutor's first one here"""

    def step(self, tutor: Tutor) -> StepResult:
        """Take this process's part in the step; in the first one the result has all rows."""
        for group, rate in zip(tutor.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate
        tutor.best_accuracy = self.best_accuracy
        device = tutor.problem.student.device
        held_out = None if self.held_out is None else _moved(self.held_out, device)
        result = Tutor.step(tutor, _moved(self.batch, device), held_out)
        rows = tuple(x.cpu() for x in (result.losses, result.weights, result.ids))
        buffers = _buffers(tutor.problem.student.module) if self.is_first else {}
        gathered: list[Any] | None = None if process_rank() else [None] * process_count()
        dist.gather_object((*rows, buffers), gathered)
        if gathered is None:
            return result
        *columns, all_buffers = zip(*gathered, strict=True)
        _require_same(all_buffers)
        losses, weights, ids = (torch.cat(parts).to(device) for parts in columns)
        return result._replace(losses=losses, weights=weights, ids=ids)


class DataParallelTutor(Tutor):
    """The first process's tutor, in whose steps every process has a share of the rows."""

    latest: ClassVar[Any] = None
    """a weak reference to the one that the other processes have"""

    def __init__(self, *args: Any, **options: Any) -> None:
        processes = Group(averages=False, sync_batch_norm=True)
        super().__init__(*args, processes=processes, **options)

    def step(self, batch: Batch, held_out: Batch | None = None) -> StepResult:
        """Take a step with all processes; the result has all rows."""
        cls, count, tutor = DataParallelTutor, self.processes.size, None
        is_first = cls.latest is None or cls.latest() is not self
        if is_first:
            cls.latest = weakref.ref(self)
            tutor = joblib.wrap_non_picklable_objects(self, keep_wrapper=False)
        rates = [group["lr"] for group in self.optimizer.param_groups]
        held_outs = [None] * count if held_out is None else _split(held_out, count)
        shares = [
            StepShare(tutor, rows, clean, rates, self.best_accuracy, is_first)
            for rows, clean in zip(_split(batch, count), held_outs, strict=True)
        ]
        shares[0] = shares[0]._replace(tutor=None)
        own: list[Any] = [None]
        dist.scatter_object_list(own, shares)
        return shares[0].step(self)


def make_tutor(
    student: nn.Module, optimizer: Optimizer, teacher: nn.Module, *args: Any, **options: Any
) -> Tutor:
    """A tutor, of all processes once they are connected."""
    if process_count() > 1:
        _require_shared(teacher)
    cls = DataParallelTutor if dist.is_initialized() else Tutor
    return cls(student, optimizer, teacher, *args, **options)


@contextmanager
def all_processes(run: Path) -> Iterator[None]:
    """Connect the first process with the others, which end with the block.

    Note: raises ``UsageError`` where one of them has ended before.
    """
    if process_count() == 1:
        yield
        return
    dist.init_process_group(timeout=WAIT)
    try:
        yield
        dist.scatter_object_list([None], [None] * process_count())
    except RuntimeError as error:
        if not _has_lost_a_process(error):
            raise
        raise UsageError(
            "Another of torchrun's processes has ended, which its own message or torchrun's "
            f"explains. Go on from the checkpoints with --resume {run}"
        ) from error
    dist.destroy_process_group()


def take_part() -> int:
    """Take part in the first process's steps until it ends; returns the exit code.

    Note: raises ``UsageError``, which names the process, where a step fails.
    """
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    place = os.environ.get("LOCAL_RANK", "0")  # of this machine's processes
    own = gpus[int(place)] if len(gpus) > int(place) and gpus[0] else place
    os.environ["CUDA_VISIBLE_DEVICES"] = own  # the one that tensors of the first come to
    torch.set_num_threads(1)
    dist.init_process_group(timeout=WAIT)
    with handling(signal.SIG_IGN):  # the first process handles them
        try:
            return _take_shares()
        except RuntimeError as error:
            if _has_lost_a_process(error):
                return LOST
            who = f"Process {process_rank()} of torchrun's (RANK)"
            way = f". {EMPTY_INPUTS_HINT}." if "0 elements" in str(error) else ""
            raise UsageError(f"{who} cannot go on: {first_line(error)}{way}") from error


def _take_shares() -> int:
    tutor: Any = None
    while True:
        received: list[Any] = [None]
        dist.scatter_object_list(received, None)
        share = received[0]
        if share is None:
            dist.destroy_process_group()
            return 0
        tutor = tutor if share.tutor is None else share.tutor
        share.step(tutor)


def _has_lost_a_process(error: RuntimeError) -> bool:
    # Gloo has no error of its own
    return isinstance(error, dist.DistError) or "/gloo/" in str(error)


def _split(batch: Batch, count: int) -> list[Batch]:
    columns = ([x.clone() for x in x.cpu().tensor_split(count)] for x in batch[:3])
    return [
        batch._replace(inputs=inputs, targets=targets, ids=ids)
        for inputs, targets, ids in zip(*columns, strict=True)
    ]


def _moved(batch: Batch, device: torch.device) -> Batch:
    inputs, targets, ids = (x.to(device) for x in batch[:3])
    return batch._replace(inputs=inputs, targets=targets, ids=ids)


def _buffers(student: nn.Module) -> dict[str, Tensor]:
    """The buffers that are saved."""
    saved = student.state_dict()
    return {k: saved[k].cpu() for k, _ in student.named_buffers() if k in saved}


def _require_same(buffers: Sequence[dict[str, Tensor]]) -> None:
    """Refuse a student of which the processes have other buffers, each by rows of its own."""
    first, *others = buffers
    for name, x in first.items():
        for other in others:
            here, there = x.double(), other[name].double()
            if here.shape != there.shape or not here.allclose(there, 1e-4, equal_nan=True):
                raise UsageError(
                    f"torchrun divides each batch, and the student's buffer {name} becomes "
                    "another one in each process: of what layers count up, only that of "
                    "torch.nn.functional.batch_norm is by all rows. Leave out torchrun: --jobs "
                    "trains several students at a time."
                )


def _require_shared(teacher: nn.Module) -> None:
    if not isinstance(teacher, SHARED):
        raise UsageError(
            f"torchrun divides each batch among {process_count()} processes, but the teacher "
            f"{type(teacher).__name__} relates the rows of a batch to one another. Give "
            "another --teacher, or leave out torchrun: --jobs trains several students at a "
            "time."
        )
