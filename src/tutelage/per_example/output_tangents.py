"""Derivatives of a module's outputs along a direction of its parameters."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from tutelage.functional.calls import call_on
from tutelage.functional.replay import replay
from tutelage.per_example.forward import as_constants, load_forward_mode
from tutelage.per_example.inputs import ModuleInputs
from tutelage.per_example.row_arithmetic import gradient_dot, tensors_in
from tutelage.per_example.units import scales_by_frequency
from tutelage.precision import upcast
from tutelage.types import Params


class Direct(nn.Module):
    """A module's own forward, without the hooks that were set on it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: object, **kwargs: object) -> object:
        """Run the module's forward."""
        return self.module.forward(*args, **kwargs)


class ModuleSnapshot:
    """A module's state before a call, so that the call can be repeated."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        named = [
            *module.named_parameters(remove_duplicate=False),
            *module.named_buffers(remove_duplicate=False),
        ]
        self.tensors = {k: v.detach().clone() for k, v in named}
        self.modes = [(part, part.training) for part in module.modules()]
        self.device = next(module.parameters()).device
        self.random_state = torch.get_rng_state()
        cuda = self.device.type == "cuda"
        self.cuda_state = torch.cuda.get_rng_state(self.device) if cuda else None
        self.autocast = torch.is_autocast_enabled(self.device.type)

    def arguments(self, inputs: ModuleInputs) -> ModuleInputs:
        """Inputs in the parameters' dtype, as under autocast."""
        return (
            inputs.stored_as(next(self.module.parameters()).dtype) if self.autocast else inputs
        )

    @contextmanager
    def again(self) -> Iterator[Params]:
        """Restore random state and modes of the call inside."""
        devices = [] if self.cuda_state is None else [self.device]
        modes = [(part, part.training) for part in self.module.modules()]
        with torch.random.fork_rng(devices):
            torch.set_rng_state(self.random_state)
            if self.cuda_state is not None:
                torch.cuda.set_rng_state(self.cuda_state, self.device)
            try:
                set_modes(self.modes)
                yield {k: v.clone() for k, v in self.tensors.items()}
            finally:
                set_modes(modes)


def set_modes(modes: list[tuple[nn.Module, bool]]) -> None:
    """Put every module, alone, into training or evaluation mode."""
    for part, training in modes:
        part.training = training


def moved_linearly(module: nn.Module, inputs: ModuleInputs, local: Params) -> Tensor:
    """A linear layer's output derivative: the layer evaluated at the direction."""
    local = {k: upcast(v) for k, v in local.items()}
    with torch.no_grad():
        if isinstance(module, nn.Embedding):
            return embedding_rows(module, inputs.args[0], local["weight"])
        own = {
            f"module.{k}": local[k] if k in local else zeros_like(p, local)
            for k, p in module.named_parameters(recurse=False)
        }
        fitting = inputs.stored_as(next(iter(local.values())).dtype)
        moved = call_on(Direct(module), own, fitting.args, fitting.kwargs)
        assert isinstance(moved, Tensor)
        return moved


def zeros_like(parameter: Tensor, local: Params) -> Tensor:
    """Zeros of a parameter's shape and of the direction's type."""
    return torch.zeros_like(parameter, dtype=next(iter(local.values())).dtype)


def embedding_rows(module: nn.Embedding, tokens: Tensor, table: Tensor) -> Tensor:
    """Rows of an embedding table; zeros for padding, which gets no gradient."""
    moved = table[tokens]
    if module.padding_idx is not None:
        moved.masked_fill_((tokens == module.padding_idx).unsqueeze(-1), 0.0)
    if scales_by_frequency(module):
        counts = torch.bincount(tokens.flatten(), minlength=len(table))
        moved.div_(counts[tokens].unsqueeze(-1))
    return moved


def moved_forward(before: ModuleSnapshot, inputs: ModuleInputs, local: Params) -> list[Tensor]:
    """The output derivative of any module, by forward mode.

    Note: Raises NotImplementedError where torch has no forward-mode formula.
    """
    load_forward_mode()
    fitting = before.arguments(inputs)
    with torch.no_grad(), before.again() as own, dual_level(), as_constants():
        duals = {k: make_dual(own[k], v.to(own[k].dtype)) for k, v in local.items()}
        given_back = call_module(before.module, own | duals, fitting)
        pairs = [unpack_dual(out) for out in tensors_in(given_back)]
        return [torch.zeros_like(p) if t is None else t.clone() for p, t in pairs]


def dots_by_rows(
    before: ModuleSnapshot,
    inputs: ModuleInputs,
    local: Params,
    outputs: list[tuple[Tensor | None, int]],
) -> Tensor:
    """Products by one backward pass per row, for modules without forward mode."""
    with torch.enable_grad(), before.again() as own:
        own = {k: v.requires_grad_(k in local) for k, v in own.items()}
        tensors = tensors_in(call_module(before.module, own, before.arguments(inputs)))
        known = [
            (out.movedim(dim, 0), delta.to(out.dtype).movedim(dim, 0))
            for out, (delta, dim) in zip(tensors, outputs, strict=True)
            if delta is not None and out.requires_grad
        ]
        found = [
            row_dot([(out[row], delta[row]) for out, delta in known], own, local)
            for row in range(len(known[0][1]))
        ]
    return torch.stack(found).detach()


def row_dot(row: list[tuple[Tensor, Tensor]], own: Params, local: Params) -> Tensor:
    """The product of one row's gradient."""
    outs, deltas = [out for out, _ in row], [delta for _, delta in row]
    leaves = [own[k] for k in local]
    grads = torch.autograd.grad(outs, leaves, deltas, retain_graph=True, allow_unused=True)
    pairs = zip(grads, local.values(), strict=True)
    parts = [gradient_dot(g, v) for g, v in pairs if g is not None]
    return torch.stack(parts).sum()


def call_module(module: nn.Module, own: dict[str, Any], inputs: ModuleInputs) -> object:
    """Call a module on other parameters and buffers."""
    return replay(module, own, inputs.args, inputs.kwargs, tie_weights=False)
