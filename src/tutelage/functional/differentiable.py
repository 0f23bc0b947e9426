"""Settings under which a module has second and forward-mode derivatives."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.parametrize import ParametrizationList
from torch.nn.utils.spectral_norm import SpectralNorm

from tutelage.distributed.wrappers import data_parallel, uncompiled
from tutelage.errors import UnsupportedStudentError
from tutelage.types import Batch


@contextmanager
def differentiable(module: nn.Module) -> Iterator[None]:
    """Restrict a module to operators with second derivatives inside.

    Fused attention and cuDNN's recurrent layers have none, compiled code has none and does not
    run hooks that were set after it was compiled.
    """
    recurrent = any(isinstance(part, nn.RNNBase) for part in module.modules())
    aside = without_cudnn() if recurrent else nullcontext()
    unfused = sdpa_kernel(SDPBackend.MATH)
    with eager(module), unfused, without_fast_path(), dense_gradients(module), aside:
        yield


@contextmanager
def dense_gradients(module: nn.Module) -> Iterator[None]:
    """Give embeddings with ``sparse`` dense gradients inside, which have second derivatives."""
    tables = [
        part
        for part in module.modules()
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.sparse
    ]
    for table in tables:
        table.sparse = False
    try:
        yield
    finally:
        for table in tables:
            table.sparse = True


@contextmanager
def without_fast_path() -> Iterator[None]:
    """Disable the fused inference path of attention, which has no derivatives."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def eager(module: nn.Module) -> Iterator[None]:
    """Run a compiled module eagerly inside."""
    compiled = compiled_parts(module)
    with torch.compiler.set_stance("force_eager") if compiled else nullcontext():
        yield


@contextmanager
def without_cudnn() -> Iterator[None]:
    """Disable cuDNN inside, without changing its other flags."""
    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = before


def compiled_parts(module: nn.Module) -> list[str]:
    """Names of the compiled submodules."""
    return [
        name
        for name, part in module.named_modules()
        if hasattr(part, "_orig_mod") or part._compiled_call_impl is not None
    ]


def original(module: nn.Module) -> nn.Module:
    """The module without the wrappers of ``torch.compile`` and data parallelism.

    One that was compiled in place, or in parts, is itself; see ``differentiable`` for those.
    """
    wrapper = data_parallel(module)
    return uncompiled(module) if wrapper is None else original(wrapper.module)


def require_steps_with_derivative(module: nn.Module) -> None:
    """Raise for layers that overwrite their own parameters in the forward pass."""
    for name in overwritten(module):
        if module.get_parameter(name).requires_grad:
            raise UnsupportedStudentError(
                f"The embedding of '{name}' has max_norm and rescales its rows in place at "
                "each look-up, of which there is no derivative. Leave max_norm away, or use "
                "Lookahead, which takes no step again."
            )


def require_hessian(module: nn.Module) -> None:
    """Raise for layers that update buffers from the weights without a derivative."""
    for name, part in module.named_modules():
        if _iterates(part):
            raise UnsupportedStudentError(
                f"The spectral norm of '{name.partition('.parametrizations')[0]}' takes a "
                "power iteration in each forward pass, which depends on the weight without a "
                "derivative: a hypergradient would be off. Put it into evaluation mode."
            )


def overwritten(module: nn.Module) -> list[str]:
    """Names of embeddings with ``max_norm``, whose rows are rescaled in place."""
    tables = [
        part.weight
        for part in module.modules()
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.max_norm is not None
    ]
    if not tables:
        return []
    names: dict[Tensor, str] = {p: name for name, p in module.named_parameters()}
    return [names[table] for table in tables]


def _iterates(part: nn.Module) -> bool:
    if not part.training:
        return False
    if isinstance(part, ParametrizationList):
        inside = any(isinstance(p, _SpectralNorm) and p.training for p in part)
        return inside and any(p.requires_grad for p in part.parameters())
    hooks = [h for h in part._forward_pre_hooks.values() if isinstance(h, SpectralNorm)]
    return any(getattr(part, f"{hook.name}_orig").requires_grad for hook in hooks)


def require_learnable(name: str, batch: Batch) -> None:
    """Raise if no gradient can be taken of a batch."""
    if not torch.is_grad_enabled():
        raise ValueError(
            "A step cannot be taken where gradients are switched off: call step outside "
            "torch.no_grad and torch.inference_mode."
        )
    if batch.inputs.is_inference() or batch.targets.is_inference():
        raise ValueError(
            f"{name} was made under torch.inference_mode, so nothing can be learned from it: "
            "make it under torch.no_grad, or clone it outside."
        )
