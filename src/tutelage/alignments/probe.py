"""Finding which dimension of a module's output counts the rows of a batch."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tutelage.alignments.rows import tensors_in
from tutelage.alignments.units import Unit
from tutelage.randomness import seeded
from tutelage.trees import cloned

Places = Mapping[tuple[str, int], Sequence[int | None]]
"""row dimension of every output, by the module's name and the number of its call"""
FACTORS = (0.5, 2.0, 4.0)
"""powers of two, so that what they scale is scaled without rounding"""


def find_places(
    student: nn.Module, units: Sequence[Unit], given: Sequence[object], rows: int
) -> Places:
    """Run a few rows through the student and see what scales with each row's own loss.

    Where the loss of row i is multiplied, row i of every gradient is, and nothing else: that
    tells positions from examples where their numbers agree, and finds modules that mix rows.

    Args:
        student: The student; its state is left alone.
        units: The modules to look at.
        given: The student's positional arguments.
        rows: B.

    Returns:
        None for an output in which no dimension counts rows.
    """
    few = min(rows, len(FACTORS))
    args = tuple(sliced(a, rows, few) for a in given)
    outputs: dict[tuple[str, int], list[Tensor]] = {}
    device = next(student.parameters()).device
    with ExitStack() as stack, seeded(0, device), torch.enable_grad():
        for unit in units:
            gather(unit, outputs, stack)
        result = functional_call(student, cloned(dict(student.named_buffers())), args)
        scores = row_scores(result, few)
    if scores is None:
        return {}
    flat = [t for tensors in outputs.values() for t in tensors if t.requires_grad]
    factors = torch.tensor(FACTORS[:few], dtype=scores.dtype, device=scores.device)
    once, scaled = (
        torch.autograd.grad(
            scores, flat, weights, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for weights in (torch.ones_like(factors), factors)
    )
    found = {
        id(t): scaling_dim(a, b, factors) for t, a, b in zip(flat, once, scaled, strict=True)
    }
    return {key: [found.get(id(t)) for t in tensors] for key, tensors in outputs.items()}


def gather(unit: Unit, outputs: dict[tuple[str, int], list[Tensor]], stack: ExitStack) -> None:
    """Keep what a module gives, call by call.

    Args:
        unit: The module.
        outputs: Where to.
        stack: Undoes the hook.
    """
    calls: list[None] = []

    def after(_module: nn.Module, _args: object, given: object) -> None:
        # a view: what the student changes in place afterwards is another tensor
        outputs[unit.name, len(calls)] = tensors_in(given)
        calls.append(None)

    stack.callback(unit.module.register_forward_hook(after).remove)


def row_scores(result: object, rows: int) -> Tensor | None:
    """One differentiable number per row of what the student gave.

    Args:
        result: Tensors whose first dimension counts rows.
        rows: How many there are.

    Returns:
        [rows]; None where there is none.
    """
    fitting = [t for t in tensors_in(result) if t.requires_grad and t.shape[:1] == (rows,)]
    if not fitting:
        return None
    return torch.stack([varied(t.flatten(1)).sum(1) for t in fitting]).sum(0)


def varied(values: Tensor) -> Tensor:
    """Values times fixed, all different factors, so that no sum is trivially constant.

    Args:
        values: [rows, n].

    Returns:
        [rows, n].
    """
    steps = torch.arange(1, values.shape[1] + 1, dtype=values.dtype, device=values.device)
    return values * torch.cos(steps)


def scaling_dim(once: Tensor, scaled: Tensor, factors: Tensor) -> int | None:
    """The dimension along which one tensor is the other times the factors.

    Args:
        once: A gradient.
        scaled: The gradient for losses multiplied by the factors.
        factors: One per row.

    Returns:
        The first such dimension; None if there is none.
    """
    rows, bound = len(factors), 1e-4 * float(scaled.abs().max()) if scaled.numel() else 0.0
    for dim in range(once.ndim):
        if once.shape[dim] == rows:
            shape = [rows if d == dim else 1 for d in range(once.ndim)]
            if float((once * factors.view(shape) - scaled).abs().max()) <= bound:
                return dim
    return None


def sliced(value: object, rows: int, few: int) -> object:
    """The first rows of a tensor that has one per example.

    Args:
        value: An argument of the student.
        rows: B.
        few: How many to keep.

    Returns:
        Anything else as it is.
    """
    if isinstance(value, Tensor) and value.shape[:1] == (rows,):
        return value[:few]
    return value
