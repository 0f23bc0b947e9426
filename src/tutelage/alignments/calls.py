"""One call of one of a student's modules, kept until its share of the dot products is known."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from tutelage.alignments.forward import load_forward_mode
from tutelage.alignments.rows import (
    is_cuda,
    is_floating,
    row_dots,
    sum_over,
    sum_rows,
    tensors_in,
)
from tutelage.alignments.units import CHANNEL_NORMS, TRAILING_NORMS, Unit
from tutelage.records import Params


class Direct(nn.Module):
    """A module's own forward, without the hooks that were set on it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: object, **kwargs: object) -> object:
        """Run the module's forward.

        Args:
            *args: Its arguments.
            **kwargs: Its keyword arguments.

        Returns:
            What it gives.
        """
        return self.module.forward(*args, **kwargs)


@dataclass
class Output:
    """One tensor that a module gave, and what the loss made of it."""

    row_dim: int
    delta: Tensor | None = None
    """d loss / d output; None as long as no gradient has come"""


@dataclass
class Call:
    """Inputs of a call and gradients of its outputs, from which each row's share follows."""

    unit: Unit
    rows: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: list[Output]
    own: Params
    """parameters and buffers as they were, by their name in the module; only where needed"""
    random_state: Tensor | None
    store: torch.dtype | None
    sums: Params = field(default_factory=dict)
    """[rows, ...] gradients of the parameters, row by row, where they were formed at once"""
    versions: list[tuple[Tensor, int]] = field(default_factory=list)

    def receive(self, place: int, delta: Tensor) -> None:
        """Take in the gradient of an output.

        Args:
            place: Which output.
            delta: d loss / d output.
        """
        if self.unit.linear and isinstance(self.unit.module, CHANNEL_NORMS + TRAILING_NORMS):
            self.sums = norm_gradients(self, delta)
            self.args, self.kwargs, self.versions = (), {}, []
            return
        kept = delta.detach()
        self.outputs[place].delta = kept if self.store is None else kept.to(self.store)

    def dots(self, direction: Params) -> Tensor:
        """This call's share of every row's dot product.

        Args:
            direction: Keyed by the student's parameter names; a missing one counts as zero.

        Returns:
            [rows].

        Raises:
            RuntimeError: If the inputs were overwritten since.
        """
        names = self.unit.params
        local = {k: direction[name] for k, name in names.items() if name in direction}
        if self.sums:
            return sum_rows([(self.sums[k].flatten(1), v.flatten()) for k, v in local.items()])
        for tensor, version in self.versions:
            if tensor._version != version:
                raise RuntimeError(
                    f"The inputs of the student's module '{self.unit.name}' were overwritten "
                    "before the dot products were asked for. Give every batch its own memory."
                )
        if not local or all(out.delta is None for out in self.outputs):
            return torch.zeros(self.rows, device=next(iter(direction.values())).device)
        moved = moved_linearly(self, local) if self.unit.linear else moved_forward(self, local)
        total = torch.zeros((), device=moved[0].device)
        for out, tangent in zip(self.outputs, moved, strict=True):
            if out.delta is not None:
                total = total + row_dots(out.delta.to(tangent.dtype), tangent, out.row_dim)
        return total


def moved_linearly(call: Call, local: Params) -> list[Tensor]:
    """The layer evaluated at the direction: how its output moves.

    Args:
        call: A call of a layer that is linear in its parameters.
        local: Direction by the layer's own names.

    Returns:
        One tensor like its output.
    """
    module = call.unit.module
    own = {
        f"module.{k}": local[k] if k in local else torch.zeros_like(p)
        for k, p in module.named_parameters(recurse=False)
    }
    kind = next(iter(local.values())).dtype
    args = tuple(a.to(kind) if is_floating(a) else a for a in call.args)
    with torch.no_grad():
        moved = functional_call(Direct(module), own, args, call.kwargs)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            moved = moved.masked_fill((args[0] == module.padding_idx).unsqueeze(-1), 0.0)
    return [moved]


def moved_forward(call: Call, local: Params) -> list[Tensor]:
    """The forward-mode derivative of any module in its own parameters.

    Args:
        call: A call of it.
        local: Direction by the module's own names.

    Returns:
        One tensor per output.
    """
    load_forward_mode()
    devices = [call.args[0].device] if call.args and is_cuda(call.args[0]) else []
    with (
        torch.no_grad(),
        torch.random.fork_rng(devices),
        torch.backends.cudnn.flags(enabled=False),
        sdpa_kernel(SDPBackend.MATH),
        dual_level(),
    ):
        restore(call.random_state, devices)
        own = {k: v.clone() for k, v in call.own.items()}
        own |= {k: make_dual(own[k], v.to(own[k].dtype)) for k, v in local.items()}
        given = functional_call(call.unit.module, own, call.args, call.kwargs)
        pairs = [unpack_dual(out) for out in tensors_in(given)]
        return [torch.zeros_like(p) if t is None else t.clone() for p, t in pairs]


def norm_gradients(call: Call, delta: Tensor) -> Params:
    """Every row's gradient of a normalisation's scale and shift.

    Args:
        call: A call of the layer.
        delta: d loss / d output.

    Returns:
        ``weight`` and ``bias``, each [rows, ...].
    """
    module, row = call.unit.module, call.outputs[0].row_dim
    affine = dict(module.named_parameters(recurse=False))
    channels = isinstance(module, CHANNEL_NORMS)
    last = delta.ndim - affine["weight"].ndim
    own_dims = {1} if channels else set(range(last, delta.ndim))
    others = [d for d in range(delta.ndim) if d not in own_dims | {row}]
    found: Params = {}
    with torch.no_grad():
        if "weight" in call.unit.params:
            plain = {"module.weight": torch.ones_like(affine["weight"])}
            if "bias" in affine:
                plain["module.bias"] = torch.zeros_like(affine["bias"])
            buffers = {f"module.{k}": b.clone() for k, b in module.named_buffers()}
            normed = functional_call(Direct(module), plain | buffers, call.args, call.kwargs)
            found["weight"] = sum_over(normed * delta, others)
        if "bias" in call.unit.params:
            found["bias"] = sum_over(delta, others)
    return found


def open_call(
    unit: Unit,
    rows: int,
    store: torch.dtype | None,
    given: tuple[tuple[object, ...], dict[str, object]],
    state: Tensor | None,
) -> Call:
    """Keep a call's inputs, and its module's tensors where a derivative will be taken there.

    Args:
        unit: The module.
        rows: B.
        store: How to keep tensors.
        given: Positional and keyword arguments.
        state: Of the generator it draws from.

    Returns:
        The call, without its outputs.
    """
    args, kwargs = given
    own: Params = {}
    if not unit.linear:
        module = unit.module
        own = {k: v.detach().clone() for k, v in module.named_parameters()}
        own |= {k: v.detach().clone() for k, v in module.named_buffers()}
    eager = isinstance(unit.module, CHANNEL_NORMS + TRAILING_NORMS)
    kept = None if eager or not unit.linear else store
    versions = [
        (t, t._version)
        for t in (*args, *kwargs.values())
        if isinstance(t, Tensor) and not t.is_inference()
    ]
    call = Call(
        unit,
        rows,
        tuple(frozen(a, kept) for a in args),
        {k: frozen(a, kept) for k, a in kwargs.items()},
        [],
        own,
        state,
        kept,
    )
    call.versions = [(t.detach(), v) for t, v in versions] if kept is None else []
    return call


def frozen(value: object, kind: torch.dtype | None) -> object:
    """A tensor without history, other values as they are.

    Args:
        value: An argument of a module.
        kind: The type to keep floating-point tensors as, where not their own.

    Returns:
        What to keep of it.
    """
    if not isinstance(value, Tensor):
        return value
    value = value.detach()
    return value if kind is None or not value.is_floating_point() else value.to(kind)


def restore(state: Tensor | None, devices: Sequence[torch.device]) -> None:
    """Set the generator that a module drew from to where it was.

    Args:
        state: The state it had; None where nothing is drawn.
        devices: The CUDA device it ran on, or none.
    """
    if state is not None and devices:
        torch.cuda.set_rng_state(state, devices[0])
    elif state is not None:
        torch.set_rng_state(state)
