"""Outputs of a student's named submodules during a forward pass."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from torch import Tensor, nn

from tutelage.errors import UsageError, nearest
from tutelage.functional.differentiable import eager
from tutelage.types import Params


@contextmanager
def record_outputs(module: nn.Module, taps: Sequence[str]) -> Iterator[Params]:
    """Collect the outputs of named submodules during one forward pass, run eagerly."""
    features: Params = {}

    def keep(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(_module: nn.Module, _args: object, output: object) -> None:
            if not isinstance(output, Tensor):
                raise UsageError(
                    f"The student's module '{name}' gives a {type(output).__name__}, not a "
                    "tensor. Tap a module that gives a tensor."
                )
            features[name] = output

        return hook

    parts = [(tap, find_submodule(module, tap)) for tap in taps]
    handles = [part.register_forward_hook(keep(tap)) for tap, part in parts]
    try:
        with eager(module) if taps else nullcontext():
            yield features
        for tap in taps:
            if tap not in features:
                raise UsageError(
                    f"The student's forward pass does not reach its module '{tap}'. "
                    "Tap one that it does."
                )
    finally:
        for handle in handles:
            handle.remove()


def find_submodule(module: nn.Module, tap: str) -> nn.Module:
    """The submodule of a name."""
    modules, name = submodules(module), plain(tap)
    if name not in modules or not name:
        names = [name for name in modules if name]
        raise UsageError(f"The student has no module '{tap}' to tap. {nearest(tap, names)}")
    return modules[name]


def submodules(module: nn.Module) -> dict[str, nn.Module]:
    """The submodules by uncompiled name."""
    return {plain(name): part for name, part in module.named_modules()}


def plain(name: str) -> str:
    """A submodule's name without the wrappers of ``torch.compile``."""
    return ".".join(word for word in name.split(".") if word != "_orig_mod")


def output_width(module: nn.Module, tap: str) -> int:
    """The number of features per example of a submodule's output."""
    width = inferred_width(module, tap)
    if width is None:
        raise UsageError(
            f"The width of tap '{tap}' cannot be read off the student. Give the width of the "
            "flattened output of that module: tap_width=..."
        )
    return width


def last_linear(module: nn.Module) -> str:
    """The name of the last ``nn.Linear``, in the order of registration."""
    linear = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)]
    if not linear:
        raise UsageError(
            f"{type(module).__name__} has no linear layer among its modules to be the last: "
            "take all layers."
        )
    if not linear[-1]:
        raise UsageError(
            f"The student is a single {type(module).__name__}, whose parameters are all that "
            "there are: take all layers."
        )
    return linear[-1]


def inferred_width(module: nn.Module, tap: str) -> int | None:
    """The width of a submodule's output, if it follows from the layers around it.

    That is so for a linear layer, and for a module whose output is what the last linear layer
    takes.
    """
    tapped_module = find_submodule(module, tap)
    if isinstance(tapped_module, nn.Linear):
        return tapped_module.out_features
    parts = submodules(module)
    names = [name for name, part in parts.items() if not list(part.children())]
    linear = [name for name in names if isinstance(parts[name], nn.Linear)]
    before, tap = names[: names.index(linear[-1])] if linear else [], plain(tap)
    if before and (before[-1] == tap or before[-1].startswith(f"{tap}.")):
        last = parts[linear[-1]]
        assert isinstance(last, nn.Linear)
        return last.in_features
    return None
