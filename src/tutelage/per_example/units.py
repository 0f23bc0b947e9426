"""The modules that use each parameter."""

from collections.abc import Collection
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.utils.parametrize import is_parametrized

from tutelage.distributed.groups import Processes
from tutelage.errors import UsageError, require_known
from tutelage.types import Params

CHANNEL_NORMS = (_BatchNorm, _InstanceNorm, nn.GroupNorm)
"""scale and shift channels: dimension 1 of their input"""
TRAILING_NORMS = (nn.LayerNorm, nn.RMSNorm)
"""scale and shift the last dimensions of their input"""
LAYERS = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
    nn.Embedding,
    nn.EmbeddingBag,
    nn.Bilinear,
)
NORMS = (
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
    nn.SyncBatchNorm,
    nn.InstanceNorm1d,
    nn.InstanceNorm2d,
    nn.InstanceNorm3d,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.RMSNorm,
)
LINEAR_FORWARDS = {kind.forward for kind in (*LAYERS, *NORMS)}
"""of layers whose output is linear in weight and bias; subclasses with their own are not"""


@dataclass(frozen=True)
class Unit:
    """A module and the parameters that it uses directly."""

    name: str
    module: nn.Module
    params: dict[str, str]
    """name in the module to name in the student, tied ones included"""
    linear: bool
    """the output is linear in these parameters, so that it moves by itself evaluated at them"""


def units_of(student: nn.Module, wanted: Collection[str]) -> list[Unit]:
    """Assign parameters to the modules that use them.

    A module that reaches into its children's parameters, as ``nn.MultiheadAttention`` does, is
    one unit with them.
    """
    names = {p: name for name, p in student.named_parameters()}
    whole: list[str] = []
    units: list[Unit] = []
    for name, module in student.named_modules():
        if any(name.startswith(above) for above in whole):
            continue
        entire = owns_children_parameters(module)
        if entire:
            whole.append(f"{name}." if name else "")
        own = {
            local: names[p]
            for local, p in module.named_parameters(recurse=entire, remove_duplicate=False)
            if names[p] in wanted
        }
        if own:
            units.append(Unit(name, module, own, is_linear(module)))
    return units


def owns_children_parameters(module: nn.Module) -> bool:
    """Whether a module uses its children's parameters without calling the children."""
    return isinstance(module, nn.MultiheadAttention) or is_parametrized(module)


def is_linear(module: nn.Module) -> bool:
    """Whether a module's output is linear in its own parameters."""
    plain = {name for name, _ in module.named_parameters(recurse=True)} <= {"weight", "bias"}
    own_forward = "forward" in vars(module)
    chosen = isinstance(module, nn.EmbeddingBag) and (
        module.mode == "max" or module.max_norm is not None or module.scale_grad_by_freq
    )
    return plain and type(module).forward in LINEAR_FORWARDS and not (own_forward or chosen)


def uses_batch_statistics(module: nn.Module) -> bool:
    """Whether a module normalises by batch statistics."""
    return isinstance(module, _BatchNorm) and (module.training or module.running_mean is None)


def synchronises_batch_norm(processes: Processes, student: nn.Module) -> bool:
    """Whether several processes normalise by the statistics of one batch."""
    if processes.size == 1:
        return False
    every = processes.sync_batch_norm
    norms = filter(uses_batch_statistics, student.modules())
    return any(every or isinstance(norm, nn.SyncBatchNorm) for norm in norms)


def scales_by_frequency(module: nn.Module) -> bool:
    """Whether an embedding divides its gradient by token frequency."""
    return isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.scale_grad_by_freq


def selected(student: nn.Module, layers: Collection[str] | None) -> list[str]:
    """Names of the trainable parameters within some modules."""
    known = [name for name, _ in student.named_modules() if name]
    for layer in layers or ():
        require_known("The student has no module", layer, known)
    wanted = None if layers is None else names_within(student, layers)
    chosen = [
        name
        for name, p in student.named_parameters()
        if p.requires_grad and (wanted is None or name in wanted)
    ]
    if not chosen:
        where = "The student" if layers is None else f"layers={list(layers)}"
        raise UsageError(f"{where} has no trainable parameter to align.")
    return chosen


def names_within(student: nn.Module, layers: Collection[str]) -> set[str]:
    """Names in the student of the parameters of some modules.

    One that other modules share has the name that ``named_parameters`` gives it.
    """
    names = {p: name for name, p in student.named_parameters()}
    return {names[p] for layer in layers for p in student.get_submodule(layer).parameters()}


def without_padding(student: nn.Module, direction: Params) -> Params:
    """A direction with zeros in padding rows of embeddings, which get no gradient."""
    names: dict[Tensor, str] = {p: name for name, p in student.named_parameters()}
    found = dict(direction)
    for module in student.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            name = names[module.weight]
            uses = sum(
                module.weight is p
                for m in student.modules()
                for p in m.parameters(recurse=False)
            )
            if name in found and uses == 1:
                found[name] = found[name].clone()
                found[name][module.padding_idx] = 0.0
    return found
