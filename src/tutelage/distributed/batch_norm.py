"""Batch normalisation by statistics of all processes' rows."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_pre_hook

from tutelage.distributed.groups import Processes
from tutelage.errors import UnsupportedStudentError
from tutelage.precision import upcast

_TORCH_BATCH_NORM = F.batch_norm
_OTHER_LAYERS = (
    "Processes normalise by each other's rows, but call different layers of the student at a "
    "time. Call all its batch normalisations in the same order in each process, also on no "
    "rows, or use one process."
)


@dataclass(eq=False)
class _Block:
    """A block of ``batch_norm_over``."""

    processes: Processes
    names: Mapping[nn.Module, str]
    """of the student's modules"""
    is_synchronised: bool = False
    """whether a layer was normalised by the rows of several processes"""
    latest: nn.Module | None = None
    """the module that was called last"""
    numbers: dict[nn.Module | None, int] = field(init=False)
    """of the student's modules, the same in all processes"""
    channels: int = field(init=False)
    """of the widest layer, to which all are padded: messages of different sizes cannot be
    compared"""

    def __post_init__(self) -> None:
        """Number the modules."""
        self.numbers = {module: number for number, module in enumerate(self.names)}
        norms = [module for module in self.names if isinstance(module, _BatchNorm)]
        self.channels = max((norm.num_features for norm in norms), default=0)

    def record_call(self, module: nn.Module, inputs: object) -> None:
        """A hook before every module's forward pass."""
        del inputs
        self.latest = module


_ACTIVE: list[_Block] = []
"""the present blocks of ``batch_norm_over``, the innermost last"""


@contextmanager
def batch_norm_over(processes: Processes, student: nn.Module | None = None) -> Iterator[None]:
    """Batch normalisation by the rows of all processes, within a block.

    Replaces the forward pass of ``SyncBatchNorm``, and with ``processes.sync_batch_norm`` all
    of ``torch.nn.functional.batch_norm``. Backward passes of activation checkpoints have to be
    in the block, too. All processes have to call the same layers in the same order; of a given
    student, different layers are refused.
    """
    named = () if student is None or processes.size == 1 else student.named_modules()
    block = _Block(processes, {module: name for name, module in named})
    synchronised = partial(batch_norm, block) if processes.size > 1 else _TORCH_BATCH_NORM

    def forward(module: nn.SyncBatchNorm, input: Tensor) -> Tensor:
        # torch's own has no second derivative
        _require_same_group(processes, module)
        with _patched(F, "batch_norm", synchronised):
            return _BatchNorm.forward(module, input)

    default = synchronised if processes.sync_batch_norm else _TORCH_BATCH_NORM
    with ExitStack() as block_ends:
        if processes.size > 1:
            hook = register_module_forward_pre_hook(block.record_call)
            block_ends.callback(hook.remove)
        block_ends.enter_context(_patched(F, "batch_norm", default))
        block_ends.enter_context(_patched(nn.SyncBatchNorm, "forward", forward))
        _ACTIVE.append(block)
        block_ends.callback(_ACTIVE.pop)
        yield


@contextmanager
def _patched(home: object, name: str, function: object) -> Iterator[None]:
    before = getattr(home, name)
    setattr(home, name, function)
    try:
        yield
    finally:
        setattr(home, name, before)


def is_synchronised() -> bool:
    """Whether a layer was normalised by the rows of several processes in this block."""
    return bool(_ACTIVE) and _ACTIVE[-1].is_synchronised


def batch_norm(
    block: _Block,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """``F.batch_norm`` over the rows of all processes, by one all-reduce.

    Source: Chan, Golub and LeVeque 1983 for the sum of squares of several parts.
    """
    if not training:
        return _TORCH_BATCH_NORM(
            input, running_mean, running_var, weight, bias, False, momentum, eps
        )
    block.is_synchronised = True
    processes, number = block.processes, block.numbers.get(block.latest, -1)
    x, channels = upcast(input), input.shape[1]
    others, shape = [d for d in range(x.ndim) if d != 1], [1, -1] + [1] * (x.ndim - 2)
    values = x.numel() // channels
    own = x.sum(others) / max(values, 1)
    squares = (x - own.view(shape)).square().sum(others)
    padding = x.new_zeros(2 * max(block.channels - channels, 0))
    row = torch.cat([x.new_tensor([values, number]), own, squares, padding])
    here = torch.arange(processes.size, device=x.device) == processes.rank
    parts = processes.all_reduce(here.to(x).outer(row))  # a row of each process
    counts, numbers, means, squares, _ = parts.split(
        [1, 1, channels, channels, len(padding)], 1
    )
    _require_same_layer(block, numbers.detach())
    count = counts.sum()
    if values < 2 and count == 1:  # reading it waits for a GPU
        raise ValueError(
            "Expected more than 1 value per channel when training, got one in all processes"
        )
    some = count.clamp(min=1)
    mean = (counts * means).sum(0) / some
    variance = (squares + counts * (means - mean).square()).sum(0) / some
    unbiased = variance * some / (some - 1).clamp(min=1)
    for running, new in ((running_mean, mean), (running_var, unbiased)):
        if running is not None:
            with torch.no_grad():
                # no rows in all processes change nothing
                running.lerp_(new.detach().to(running), momentum * (count > 0).to(running))
    scale = (variance + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    return torch.addcmul(shift.view(shape), x, scale.view(shape)).to(input.dtype)


def _require_same_group(processes: Processes, module: nn.SyncBatchNorm) -> None:
    """Refuse a layer that is to normalise by the rows of other processes."""
    if module.process_group is None or processes.size == 1:
        return
    groups = module.process_group, getattr(processes, "group", None)
    wanted, given = map(dist.get_process_group_ranks, groups)
    if wanted != given:
        raise UnsupportedStudentError(
            f"SyncBatchNorm is to be over processes {wanted}, but the student is trained by "
            f"{given}: leave out its process_group."
        )


def _require_same_layer(block: _Block, numbers: Tensor) -> None:
    """Refuse to mix the rows of one process's layer with those of another layer."""
    same = (numbers == numbers[0]).all()
    if same.is_cuda:  # reading it waits for the GPU
        torch.ops.aten._assert_async.msg(same, _OTHER_LAYERS)
    elif not same:
        names = list(block.names.values())
        called = [names[n] if n >= 0 else "none" for n in numbers[:, 0].int().tolist()]
        raise UnsupportedStudentError(f"{_OTHER_LAYERS} Here: {', '.join(called)}.")
