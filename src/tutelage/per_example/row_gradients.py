"""Per-example gradients, kept where they are smaller than inputs and output gradients."""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tutelage.per_example.inputs import ModuleInputs
from tutelage.per_example.row_arithmetic import sum_over
from tutelage.per_example.units import CHANNEL_NORMS, TRAILING_NORMS, Unit
from tutelage.precision import upcast
from tutelage.types import Params

CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
SMALLER = 0.6
"""size of a row's gradient over that of its input and output, below which it is kept instead;
forming it costs about as much as reading a dot product off, later, from the other two"""


def keeps_row_gradients(unit: Unit, inputs: ModuleInputs, delta: Tensor, row_dim: int) -> bool:
    """Whether to keep a layer's per-example gradients."""
    module = unit.module
    if isinstance(module, CHANNEL_NORMS + TRAILING_NORMS):
        return row_dim not in own_dims(module, delta.ndim)
    if not isinstance(module, (nn.Linear, *CONVS)) or row_dim == unit_dim(module, delta):
        return False
    if "weight" not in unit.params:
        return True
    if isinstance(module, CONVS) and row_dim != 0:
        return False
    size = module.weight.numel() * delta.shape[row_dim]
    return size < SMALLER * (inputs.args[0].numel() + delta.numel())


def unit_dim(module: nn.Module, delta: Tensor) -> int:
    """The dimension of a layer's output that counts its units."""
    return delta.ndim - 1 if isinstance(module, nn.Linear) else 1


def own_dims(module: nn.Module, ndim: int) -> set[int]:
    """The dimensions that a normalisation's scale and shift run along."""
    if isinstance(module, CHANNEL_NORMS):
        return {1}
    return set(range(ndim - next(module.parameters()).ndim, ndim))


def row_gradients(
    unit: Unit,
    inputs: ModuleInputs,
    delta: Tensor,
    row_dim: int,
    saved: tuple[Tensor, Tensor] | None,
) -> Params:
    """Per-example gradients of a layer's parameters."""
    module, delta = unit.module, upcast(delta)
    norm = isinstance(module, CHANNEL_NORMS + TRAILING_NORMS)
    dims = own_dims(module, delta.ndim) if norm else {unit_dim(module, delta)}
    found: Params = {}
    if "bias" in unit.params:
        found["bias"] = summed(delta, dims, row_dim)
    if "weight" in unit.params:
        x = inputs.args[0].to(delta.dtype)
        if isinstance(module, CONVS):
            found["weight"] = convolution_gradients(module, x, delta)
        elif isinstance(module, nn.Linear):
            found["weight"] = linear_gradients(x, delta, row_dim)
        else:
            found["weight"] = summed(normed(module, x, saved).mul_(delta), dims, row_dim)
    return found


def summed(values: Tensor, dims: set[int], row_dim: int) -> Tensor:
    """Sums over all dimensions other than those of rows and parameters."""
    sums = sum_over(values, [d for d in range(values.ndim) if d not in dims | {row_dim}])
    before = sum(d < row_dim for d in dims)
    return sums.movedim(before, 0).flatten(1)


def linear_gradients(x: Tensor, delta: Tensor, row_dim: int) -> Tensor:
    """``sum_t delta_t x_t^T`` for every row."""
    rows = delta.shape[row_dim]
    x, delta = (t.movedim(row_dim, 0).reshape(rows, -1, t.shape[-1]) for t in (x, delta))
    return torch.bmm(delta.transpose(1, 2), x).flatten(1)


def convolution_gradients(
    module: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor, delta: Tensor
) -> Tensor:
    """Per-example gradients of a kernel, by one grouped convolution."""
    rows, nothing = len(x), [0] * (x.ndim - 2)
    x = padded(module, x)
    kernel = module.weight.detach().to(x.dtype)
    kernel = kernel.expand(rows, *kernel.shape).flatten(0, 1)
    _, found, _ = torch.ops.aten.convolution_backward(
        delta.flatten(0, 1).unsqueeze(0),
        x.flatten(0, 1).unsqueeze(0),
        kernel,
        None,
        module.stride,
        nothing if amounts(module) is None else amounts(module),
        module.dilation,
        False,
        nothing,
        rows * module.groups,
        [False, True, False],
    )
    return found.view(rows, -1)


def amounts(module: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> list[int] | None:
    """Zero padding of a convolution; None for other kinds."""
    if module.padding_mode != "zeros" or module.padding == "same":
        return None
    if isinstance(module.padding, str):  # "valid"
        return [0] * len(module.stride)
    return [int(n) for n in module.padding]


def padded(module: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor) -> Tensor:
    """A convolution's padded input."""
    if amounts(module) is not None:
        return x
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    return nn.functional.pad(x, module._reversed_padding_repeated_twice, mode=mode)


def normed(module: nn.Module, x: Tensor, saved: tuple[Tensor, Tensor] | None) -> Tensor:
    """A normalisation's output with scale 1 and shift 0."""
    match module:
        case nn.GroupNorm():
            return nn.functional.group_norm(x, module.num_groups, None, None, module.eps)
        case nn.LayerNorm():
            return nn.functional.layer_norm(x, module.normalized_shape, None, None, module.eps)
        case nn.RMSNorm():
            return nn.functional.rms_norm(x, module.normalized_shape, None, module.eps)
    mean, inverse = statistics(module, x) if saved is None else saved
    shape = [-1, x.shape[1]] + [1] * (x.ndim - 2)
    return (x - mean.to(x.dtype).view(shape)).mul_(inverse.to(x.dtype).view(shape))


def statistics(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and inverse deviation of a batch or instance normalisation."""
    assert isinstance(module, CHANNEL_NORMS)
    assert not isinstance(module, nn.GroupNorm)
    mean, variance = module.running_mean, module.running_var
    by_input = module.training or not module.track_running_stats
    if by_input or mean is None or variance is None:
        first = 0 if isinstance(module, _BatchNorm) else 1
        over = [d for d in range(x.ndim) if d != 1 and d >= first]
        variance, mean = torch.var_mean(x, over, correction=0)
    return mean, torch.rsqrt(variance + module.eps)
