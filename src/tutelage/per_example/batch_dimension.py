"""Detection of the batch dimension of module outputs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tutelage.functional.module_state import attributes_kept
from tutelage.functional.replay import replay
from tutelage.functional.trees import cloned
from tutelage.per_example.coupling import fixed_projection
from tutelage.per_example.inputs import ModuleInputs
from tutelage.per_example.row_arithmetic import map_tensors, tensors_in
from tutelage.per_example.units import Unit, uses_batch_statistics
from tutelage.randomness import seeded, seeded_generators

Places = Mapping[tuple[str, int], Sequence[int | None]]
"""row dimension of every output, by the module's name and the number of its call"""
FEW = 3
"""rows that are enough to find their dimension"""
MANY = 64
"""rows of the probe for students with batch normalisation"""
TOLERANCE = 1e-4
"""of the largest gradient, by which a gradient may miss its multiple"""
UNKNOWN = -1
"""where two dimensions would do, as for an output that has no gradient"""


def find_places(
    student: nn.Module, units: Sequence[Unit], inputs: ModuleInputs, rows: int
) -> Places | None:
    """Find batch dimensions by scaling the loss of each row.

    Where the loss of row i is multiplied, row i of every gradient is, and nothing else: that
    distinguishes positions from examples of the same number, and finds modules that mix rows.
    """
    few = min(rows, MANY if any(map(uses_batch_statistics, student.modules())) else FEW)
    outputs: dict[tuple[str, int], list[Tensor]] = {}
    device = next(student.parameters()).device
    try:
        with ExitStack() as stack, seeded_generators(), seeded(0, device), torch.enable_grad():
            stack.enter_context(without_statistics(student))
            stack.enter_context(attributes_kept(student))
            for unit in units:
                gather(unit, outputs, stack)
            return places_in(outputs, run(student, inputs, rows, few), (few, rows))
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError):
        return None  # a student may insist on whole batches


def run(student: nn.Module, inputs: ModuleInputs, rows: int, few: int) -> object:
    """Run the student on a few rows, with copies of its buffers."""

    def sliced(tensor: Tensor) -> Tensor:
        return (tensor[:few] if tensor.shape[:1] == (rows,) else tensor).clone()

    args, kwargs = map_tensors(inputs.args, sliced), map_tensors(inputs.kwargs, sliced)
    assert isinstance(args, tuple)
    assert isinstance(kwargs, dict)
    own = {**dict(student.named_parameters()), **cloned(dict(student.named_buffers()))}
    return replay(student, own, args, kwargs)


@contextmanager
def without_statistics(student: nn.Module) -> Iterator[None]:
    """Batch normalisation by running statistics inside, where there are some."""
    norms = [m for m in student.modules() if isinstance(m, _BatchNorm)]
    changed = [m for m in norms if m.training and m.running_mean is not None]
    try:
        for norm in changed:
            norm.training = False
        yield
    finally:
        for norm in changed:
            norm.training = True


def gather(unit: Unit, outputs: dict[tuple[str, int], list[Tensor]], stack: ExitStack) -> None:
    """Collect a module's outputs, call by call."""
    calls: list[None] = []

    def after(_module: nn.Module, _args: object, output: object) -> None:
        found = tensors_in(output)
        if any(t.requires_grad for t in found):
            outputs[unit.name, len(calls)] = found
            calls.append(None)

    handle = unit.module.register_forward_hook(after, prepend=unit.linear)
    stack.callback(handle.remove)


def places_in(
    outputs: Mapping[tuple[str, int], list[Tensor]], result: object, sizes: tuple[int, int]
) -> Places:
    """Find the dimension of each output that scales with the rows."""
    scores = row_scores(result, sizes)
    if scores is None:
        return {}
    flat = [t for tensors in outputs.values() for t in tensors if t.requires_grad]
    # powers of two first: what they scale is scaled without rounding
    factors = 2.0 ** torch.arange(-1, len(scores) - 1).clamp(max=FEW - 2)
    factors = factors + torch.arange(len(scores)).sub(FEW - 1).clamp(min=0) / len(scores)
    factors = factors.to(scores)
    once, scaled = (
        torch.autograd.grad(
            scores, flat, weights, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for weights in (torch.ones_like(factors), factors)
    )
    found: dict[int, int | None] = {
        id(t): scaling_dim(a, b, factors) for t, a, b in zip(flat, once, scaled, strict=True)
    }
    return {
        key: [found.get(id(t), UNKNOWN) for t in tensors] for key, tensors in outputs.items()
    }


def row_scores(result: object, sizes: tuple[int, int]) -> Tensor | None:
    """One differentiable scalar per row of the student's output."""
    for rows in sizes:
        fitting = [t for t in tensors_in(result) if t.requires_grad and t.shape[:1] == (rows,)]
        if fitting:
            return torch.stack([fixed_projection(t.reshape(rows, -1)) for t in fitting]).sum(0)
    return None


def scaling_dim(once: Tensor, scaled: Tensor, factors: Tensor) -> int | None:
    """The dimension along which one tensor is the other times the factors."""
    rows = len(factors)
    once, scaled, factors = (t.detach().to(torch.float64) for t in (once, scaled, factors))
    bound = TOLERANCE * float(scaled.abs().max()) if scaled.numel() else 0.0
    found = []
    for dim in range(once.ndim):
        if once.shape[dim] == rows:
            shape = [rows if d == dim else 1 for d in range(once.ndim)]
            if float((once * factors.view(shape) - scaled).abs().max()) <= bound:
                found.append(dim)
    if len(found) > 1:
        return UNKNOWN
    return found[0] if found else None
