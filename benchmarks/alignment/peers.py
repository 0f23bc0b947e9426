"""The same rewards with other libraries, imported only where they are run."""

from collections.abc import Callable, Sequence
from importlib import import_module

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from benchmarks.alignment.variants import Once, Pair
from tutelage.types import Params


def dotted(rows: Sequence[Tensor], direction: Params) -> Tensor:
    """Dot products of per-example gradients.

    Args:
        rows: Gradients of every parameter [B, ...].
        direction: g, in the same order.

    Returns:
        [B].
    """
    pairs = zip(rows, direction.values(), strict=True)
    return torch.stack([a.flatten(1) @ g.flatten() for a, g in pairs]).sum(0)


def mean_gradient(pair: Pair) -> Params:
    """The gradient of the mean loss, after a backward pass of the sum.

    Args:
        pair: The student.

    Returns:
        By name.
    """
    rows = len(pair.batches[0][1])
    return {k: p.grad / rows for k, p in pair.params.items() if p.grad is not None}


def vmapped(pair: Pair) -> Once:
    """``torch.func.vmap(grad)``: a gradient per example, all at once.

    Args:
        pair: The student.

    Returns:
        What does it once.
    """

    def once() -> Tensor:
        params, buffers = pair.before()
        inputs, targets = pair.batches[0]

        def one(own: Params, x: Tensor, y: Tensor) -> Tensor:
            logits = functional_call(pair.student, own | buffers, (x[None],))
            return F.cross_entropy(logits, y[None])

        _, g = pair.gradient(0)
        pair.move(g)
        _, g = pair.gradient(1)
        rows = vmap(grad(one), (None, 0, 0))(params, inputs, targets)
        found = dotted([rows[k] for k in g], g)
        pair.move(g)
        return found

    return once


def backpack(pair: Pair) -> Once:
    """BackPACK's ``BatchGrad`` during the first step.

    Args:
        pair: The student.

    Returns:
        What does it once.
    """
    extended, extensions = import_module("backpack"), import_module("backpack.extensions")
    student = extended.extend(pair.student, use_converter=False)
    loss_of = extended.extend(nn.CrossEntropyLoss(reduction="sum"))

    def once() -> Tensor:
        inputs, targets = pair.batches[0]
        student.zero_grad()
        with extended.backpack(extensions.BatchGrad()):
            loss_of(student(inputs), targets).backward()
        parameters = pair.params.values()
        rows = [p.grad_batch for p in parameters]  # pyright: ignore[reportAttributeAccessIssue]
        for p in parameters:
            del p.grad_batch  # pyright: ignore[reportAttributeAccessIssue]
        pair.move({
            k: p.grad / len(targets) for k, p in pair.params.items() if p.grad is not None
        })
        _, g = pair.gradient(1)
        found = dotted(rows, g)
        pair.move(g)
        return found

    return once


def opacus(pair: Pair) -> Once:
    """Opacus's ``GradSampleModule`` during the first step.

    Args:
        pair: The student.

    Returns:
        What does it once.
    """
    opacus = import_module("opacus.grad_sample")
    wrapped = opacus.GradSampleModule(pair.student, loss_reduction="sum")

    def once() -> Tensor:
        inputs, targets = pair.batches[0]
        wrapped.enable_hooks()
        wrapped.zero_grad()
        F.cross_entropy(wrapped(inputs), targets, reduction="sum").backward()
        rows = [p.grad_sample for p in pair.params.values()]  # pyright: ignore[reportAttributeAccessIssue]
        first = mean_gradient(pair)
        wrapped.zero_grad()
        wrapped.disable_hooks()
        pair.move(first)
        _, g = pair.gradient(1)
        found = dotted(rows, g)
        pair.move(g)
        return found

    return once


PEERS: dict[str, Callable[[Pair], Once]] = {
    "vmap(grad)": vmapped,
    "backpack": backpack,
    "opacus": opacus,
}
