"""One recorded call of a module, and its share of the products."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tutelage.per_example.inputs import ModuleInputs
from tutelage.per_example.output_tangents import (
    ModuleSnapshot,
    dots_by_rows,
    moved_forward,
    moved_linearly,
)
from tutelage.per_example.row_arithmetic import row_dots
from tutelage.per_example.row_gradients import keeps_row_gradients, row_gradients
from tutelage.per_example.units import Unit
from tutelage.types import Params


@dataclass
class Output:
    """An output of a module, and the loss's gradient with respect to it."""

    row_dim: int
    delta: Tensor | None = None
    """d loss / d output; None as long as no gradient has come"""


@dataclass
class Call:
    """Inputs and output gradients of a call."""

    unit: Unit
    rows: int
    inputs: ModuleInputs
    store: torch.dtype | None
    """how to keep tensors; None: as they are"""
    before: ModuleSnapshot | None = None
    """the module as it was, where a derivative will be taken there"""
    saved: tuple[Tensor, Tensor] | None = None
    """a batch normalisation's mean and 1 / standard deviation"""
    outputs: list[Output] = field(default_factory=list)
    sums: Params = field(default_factory=dict)
    """[rows, n] gradients of the parameters, row by row, where these are smaller"""

    kind: torch.dtype | None = None
    """of the gradient that came"""
    repeated: bool = False
    """whether another gradient came after the inputs had been dropped"""

    @property
    def reached(self) -> bool:
        """Whether the call's outputs have a gradient."""
        return bool(self.sums) or any(out.delta is not None for out in self.outputs)

    def receive(self, place: int, delta: Tensor) -> None:
        """Record the gradient of an output."""
        out, delta = self.outputs[place], delta.detach()
        self.kind = delta.dtype
        self.repeated = bool(self.sums)  # without inputs nothing can be made of a second one
        if self.repeated:
            return
        if self.before is None and keeps_row_gradients(
            self.unit, self.inputs, delta, out.row_dim
        ):
            self.keep_row_gradients(delta, out.row_dim)
            return
        if self.before is None and self.store is not None:
            delta = delta.to(self.store)
            self.inputs = self.inputs.stored_as(self.store)
        out.delta = delta if out.delta is None else out.delta + delta

    def keep_row_gradients(self, delta: Tensor, row_dim: int) -> None:
        """Replace inputs and output gradients by per-example gradients."""
        device = delta.device.type
        with torch.no_grad(), torch.autocast(device, enabled=False):
            self.sums = row_gradients(self.unit, self.inputs, delta, row_dim, self.saved)
        self.inputs, self.saved = ModuleInputs((), {}), None

    def dots(self, direction: Params) -> Tensor:
        """The call's share of every row's product."""
        if self.repeated:
            raise RuntimeError(
                "Two backward passes went through one graph of the student's while it was "
                "recorded. Add up the losses, and run one backward pass."
            )
        names = self.unit.params
        local = {k: direction[name] for k, name in names.items() if name in direction}
        if not local or not self.reached:
            some = next(iter(direction.values()))
            return torch.zeros(self.rows, dtype=some.dtype, device=some.device)
        if self.sums:
            parts = [self.sums[k] @ v.flatten().to(self.sums[k]) for k, v in local.items()]
            return torch.stack(parts).sum(0)
        if self.inputs.overwritten:
            raise RuntimeError(
                f"The inputs of the student's module '{self.unit.name}' were overwritten "
                "before the dot products were computed. Give every batch its own memory."
            )
        with torch.autocast(next(iter(local.values())).device.type, enabled=False):
            return self.moved_dots(local)

    def moved_dots(self, local: Params) -> Tensor:
        """The call's share, by the outputs' derivative along the direction."""
        known = [(out.delta, out.row_dim) for out in self.outputs]
        if self.before is None:
            moved = [moved_linearly(self.unit.module, self.inputs, local)]
        else:
            try:
                moved = moved_forward(self.before, self.inputs, local)
            except RuntimeError as error:  # torch has no forward-mode formula for what it does
                if isinstance(error, torch.OutOfMemoryError):
                    raise
                return dots_by_rows(self.before, self.inputs, local, known)
        shares = [
            row_dots(delta, tangent, dim)
            for (delta, dim), tangent in zip(known, moved, strict=True)
            if delta is not None
        ]
        return torch.stack(shares).sum(0)


def saved_statistics(output: object) -> tuple[Tensor, Tensor] | None:
    """Batch mean and inverse deviation saved by a batch normalisation's graph."""
    node = output.grad_fn if isinstance(output, Tensor) else None
    mean = getattr(node, "_saved_result1", None)
    inverse = getattr(node, "_saved_result2", None)
    if not isinstance(mean, Tensor) or not isinstance(inverse, Tensor) or not mean.numel():
        return None
    return mean.detach(), inverse.detach()


def open_call(
    unit: Unit, rows: int, store: torch.dtype | None, inputs: ModuleInputs, output: object
) -> Call:
    """Record a layer's inputs."""
    norm = isinstance(unit.module, nn.modules.batchnorm._BatchNorm)
    saved = saved_statistics(output) if norm and unit.module.training else None
    return Call(unit, rows, inputs, store, saved=saved)
