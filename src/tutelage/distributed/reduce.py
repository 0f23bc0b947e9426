"""Sums of gradients over processes whose rows may reach different parameters."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from tutelage.distributed.groups import Processes
from tutelage.distributed.wrappers import data_parallel
from tutelage.errors import UnsupportedStudentError
from tutelage.types import Params

_REACHED = "reached by any process"


def all_reduce_gradients(processes: Processes, found: Params, moved: Params) -> Params:
    """Sum gradients over processes, for parameters that any process reaches."""
    if processes.size == 1:
        return found
    zeros = {k: torch.zeros_like(p) for k, p in moved.items() if k not in found}
    return processes.all_reduce_params({k: zeros[k] if k in zeros else found[k] for k in moved})


def all_reduce_grads(processes: Processes, parameters: Iterable[Tensor]) -> None:
    """Replace ``.grad`` by its sum over processes, by one all-reduce."""
    own = list(parameters)
    if processes.size == 1 or not own:
        return
    known = {
        str(n): torch.zeros_like(p) if p.grad is None else p.grad for n, p in enumerate(own)
    }
    flags = own[0].new_tensor([p.grad is not None for p in own])
    sums = processes.all_reduce_params({_REACHED: flags, **known})
    for n, (p, reached) in enumerate(zip(own, sums[_REACHED].tolist(), strict=True)):
        p.grad = sums[str(n)] if reached else None


def sum_wrapper_grads(processes: Processes, parameters: Iterable[Tensor]) -> None:
    """Turn what the student's wrapper leaves in ``.grad`` into the sum over processes."""
    if not processes.averages:
        all_reduce_grads(processes, parameters)
    elif processes.size > 1:
        for p in parameters:
            if p.grad is not None:
                p.grad *= processes.size


def _require_no_static_graph(student: nn.Module) -> None:
    """Raise for ``DistributedDataParallel`` with ``static_graph=True``."""
    wrapper = data_parallel(student)
    if wrapper is not None and wrapper.static_graph:
        raise UnsupportedStudentError(
            "DistributedDataParallel(static_graph=True) allows one backward pass a step, but "
            "this signal tries each step before it is taken: leave out static_graph, or use "
            "Lookahead(mode='online')."
        )


def all_reduce_backward(
    processes: Processes, student: nn.Module, loss: Tensor, parameters: Iterable[nn.Parameter]
) -> None:
    """Leave the gradient, summed over processes, in ``.grad``, and keep the graph.

    Wrappers see one backward pass a step, and this is not it.
    """
    _require_no_static_graph(student)
    own = [p for p in parameters if p.requires_grad]
    if any(hasattr(p, "device_mesh") for p in own):
        raise UnsupportedStudentError(
            "A sharded student's step cannot be tried before it is taken: use "
            "Lookahead(mode='online')."
        )
    grads = torch.autograd.grad(loss, own, retain_graph=True, allow_unused=True)
    for p, grad in zip(own, grads, strict=True):
        p.grad = grad
    all_reduce_grads(processes, own)
