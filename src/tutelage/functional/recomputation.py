"""Detection of modules that the backward pass calls on the wrong parameters.

See ``tutelage.functional.replay``.
"""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from tutelage.errors import UnsupportedStudentError

_REPLAYED: "weakref.WeakSet[nn.Module]" = weakref.WeakSet()
"""modules that were run on other parameters than their own"""
_THREAD = threading.local()


def note_replay(module: nn.Module) -> None:
    """Register a module that ran on other parameters than its own."""
    _REPLAYED.add(module)


@contextmanager
def recomputing() -> Iterator[None]:
    """Allow calls of registered modules inside."""
    before = getattr(_THREAD, "allowed", 0)
    _THREAD.allowed = before + 1
    try:
        yield
    finally:
        _THREAD.allowed = before


@contextmanager
def no_other_recomputation() -> Iterator[None]:
    """Raise if the backward pass inside calls a registered module.

    An ``autograd.Function`` that calls modules in its backward pass does so, as checkpoints of
    other libraries than torch and reversible layers do.

    Note: raises UnsupportedStudentError from within the backward pass.
    """
    handle = register_module_forward_pre_hook(_refuse)
    try:
        yield
    finally:
        handle.remove()


def _refuse(module: nn.Module, _args: object) -> None:
    if getattr(_THREAD, "allowed", 0):
        return
    for whole in list(_REPLAYED):
        for name, part in whole.named_modules():
            if part is module:
                raise UnsupportedStudentError(
                    f"The backward pass runs the {type(module).__name__} "
                    f"'{name or type(whole).__name__}' again, by other means than "
                    "torch.utils.checkpoint, so on other parameters than those of the step "
                    "that is recomputed. Use torch.utils.checkpoint there, or none."
                )
