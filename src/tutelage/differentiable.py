"""Where a module can be differentiated twice, or in forward mode, and what forbids it."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tutelage.records import Batch
from tutelage.wrapped import data_parallel, uncompiled


@contextmanager
def differentiable(module: nn.Module) -> Iterator[None]:
    """Keep a module to operators that have a second derivative, and restore the user's choice.

    Fused attention and cuDNN's recurrent layers have none, compiled code has none and does not
    run hooks that were set after it was compiled.

    Args:
        module: The module that will be run inside.

    Yields:
        Nothing.
    """
    recurrent = any(isinstance(part, nn.RNNBase) for part in module.modules())
    aside = without_cudnn() if recurrent else nullcontext()
    with eager(module), sdpa_kernel(SDPBackend.MATH), without_fast_path(), aside:
        yield


@contextmanager
def without_fast_path() -> Iterator[None]:
    """Keep attention layers from their fused evaluation, which has no forward mode.

    Yields:
        Nothing.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def eager(module: nn.Module) -> Iterator[None]:
    """Run the original code of a module that is compiled; others are left alone.

    Args:
        module: The module that will be run inside.

    Yields:
        Nothing.
    """
    compiled = compiled_parts(module)
    with torch.compiler.set_stance("force_eager") if compiled else nullcontext():
        yield


@contextmanager
def without_cudnn() -> Iterator[None]:
    """Leave cuDNN aside; unlike ``torch.backends.cudnn.flags``, touch no other flag of it.

    Yields:
        Nothing.
    """
    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = before


def compiled_parts(module: nn.Module) -> list[str]:
    """The submodules that ``torch.compile`` or ``nn.Module.compile`` has been applied to.

    Args:
        module: The student.

    Returns:
        Their names; the empty string is the module itself.
    """
    return [
        name
        for name, part in module.named_modules()
        if hasattr(part, "_orig_mod") or part._compiled_call_impl is not None
    ]


def original(module: nn.Module) -> nn.Module:
    """The module itself, where it came wrapped by ``torch.compile`` or for several processes.

    One that was compiled in place, or in parts, is itself; see ``differentiable`` for those.

    Args:
        module: The student.

    Returns:
        The module that was wrapped, which shares its parameters; else ``module``.
    """
    wrapper = data_parallel(module)
    return uncompiled(module) if wrapper is None else original(wrapper.module)


def require_learnable(name: str, batch: Batch) -> None:
    """Refuse a batch from which no gradient can be had.

    Args:
        name: What the message calls it.
        batch: The batch.

    Raises:
        ValueError: If it was made under ``torch.inference_mode``, or gradients are off now.
    """
    if not torch.is_grad_enabled():
        raise ValueError(
            "A step cannot be taken where gradients are switched off: call step outside "
            "torch.no_grad and torch.inference_mode."
        )
    if batch.inputs.is_inference() or batch.targets.is_inference():
        raise ValueError(
            f"{name} was made under torch.inference_mode, so nothing can be learnt from it: "
            "make it under torch.no_grad, or clone it outside."
        )
