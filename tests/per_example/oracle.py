"""A gradient per example, one after the other, and students around a single layer."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tutelage.per_example import Recorder, Recording
from tutelage.per_example.row_arithmetic import tensors_in
from tutelage.types import Params

F64 = torch.float64
Case = tuple[Callable[[], nn.Module], Callable[[], Tensor]]


def losses_of(given: object) -> Tensor:
    """A smooth loss per row of all that a module gives, rows first."""
    tensors = [t.flatten(1) for t in tensors_in(given)]
    return torch.stack([t.mul(0.7).add(0.1).sin().sum(1) for t in tensors]).sum(0)


def direction_for(student: nn.Module, seed: int = 7) -> Params:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(p.shape, generator=generator, dtype=F64).to(p.dtype)
        for name, p in student.named_parameters()
    }


def one_by_one(student: nn.Module, inputs: Tensor, g: Params) -> Tensor:
    params = {k: p for k, p in student.named_parameters() if p.requires_grad and k in g}
    found = []
    for row in range(len(inputs)):
        loss = losses_of(student(inputs[row : row + 1])).sum()
        grads = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
        pairs = zip(params, grads, strict=True)
        parts = [(d.to_dense() * g[k]).sum() for k, d in pairs if d is not None]
        found.append(torch.stack(parts).sum())
    return torch.stack(found)


def recorded(
    student: nn.Module, inputs: Tensor, g: Params, *, recorder: Recorder | None = None
) -> Tensor:
    """Dots read off one backward pass of a weighted sum, the optimiser's step in between."""
    recorder = Recorder(student) if recorder is None else recorder
    coefficients = torch.linspace(0.3, 1.7, len(inputs), dtype=next(student.parameters()).dtype)
    before = {k: p.detach().clone() for k, p in student.named_parameters()}
    with recorder.record(len(inputs)) as recording:
        (coefficients * losses_of(student(inputs))).sum().backward()
    with torch.no_grad():
        for p in student.parameters():
            p.grad = None
            p.add_(0.1)
    found = recording.dots(g, coefficients)
    with torch.no_grad():
        for name, p in student.named_parameters():
            p.copy_(before[name])
    return found


def numbers(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def tokens(rows: int, words: int, below: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randint(0, below, (rows, words), generator=generator)


def network(kind: torch.dtype = F64) -> nn.Sequential:
    torch.manual_seed(0)
    student = nn.Sequential(
        nn.Unflatten(1, (2, 6, 6)),
        nn.Conv2d(2, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Conv2d(4, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 5),
    )
    return student.to(kind)


def spoken(student: nn.Module, x: Tensor, recorder: Recorder) -> Recording:
    with recorder.record(len(x)) as recording:
        losses_of(student(x)).sum().backward()
    return recording
