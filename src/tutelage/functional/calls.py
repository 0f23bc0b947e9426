"""``functional_call`` for modules that hold parts or tensors under several names."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call


def call_on(
    module: nn.Module,
    own: dict[str, Any],
    args: tuple[object, ...],
    kwargs: Mapping[str, object] | None = None,
) -> Any:
    """``torch.func.functional_call`` with tied tensors, also where a whole part is shared.

    Torch exchanges the tensors of a part once for each of its names, and puts what it exchanged
    them for in their place the second time; here each part has one name.
    """
    tied = own | aliases(module, own)
    outputs = functional_call(module, tied, args, dict(kwargs or {}), tie_weights=False)
    own.update({name: tied[name] for name in own})  # buffers that the call replaced
    return outputs


def aliases(module: nn.Module, own: Mapping[str, Any]) -> dict[str, Any]:
    """What is given for a parameter or buffer, under the other names that it has."""
    names: dict[Tensor, list[str]] = {}
    for at, part in module.named_modules():
        for held in (part._parameters, part._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    names.setdefault(tensor, []).append(f"{at}.{name}" if at else name)
    found: dict[str, Any] = {}
    for known in names.values():
        if len(known) > 1 and (given := [name for name in known if name in own]):
            found |= {name: own[given[0]] for name in known if name not in own}
    return found
