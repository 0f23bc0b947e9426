"""``StudentView``: a student's module as a pure function of parameters and buffers."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tutelage.distributed.fsdp import full_tensor, full_tensors, reshard
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.derivatives import require_second_derivatives
from tutelage.functional.differentiable import original, overwritten
from tutelage.functional.optim import dense, settings_of, slots_of
from tutelage.functional.replay import replay
from tutelage.functional.submodule_outputs import record_outputs
from tutelage.functional.trees import cloned, detached
from tutelage.precision import upcast
from tutelage.types import Params, StudentState

_HALF = (torch.float16, torch.bfloat16)


class StudentView:
    """The user's module and optimiser, read but never edited or copied.

    Args:
        module: The student.
        optimizer: Its optimiser; signals differentiate with respect to what it updates.
    """

    def __init__(self, module: nn.Module, optimizer: Optimizer) -> None:
        self.module = original(module)
        self.optimizer = optimizer
        if not any(p.requires_grad for p in self.params.values()):
            raise UnsupportedStudentError(
                "The optimiser moves no trainable parameter of the student. "
                f"The student has: {', '.join(self.names.values()) or 'none'}."
            )
        settings_of(optimizer, self.names)  # refuses parameters of somebody else's
        self._checked: set[Callable[..., None]] = set()

    @property
    def names(self) -> dict[Tensor, str]:
        """The name of each parameter of the module."""
        reshard(self.module)
        return {p: name for name, p in self.module.named_parameters()}

    @property
    def params(self) -> dict[str, nn.Parameter]:
        """The parameters that the optimiser holds, frozen ones included."""
        reshard(self.module)
        moved = {p for group in self.optimizer.param_groups for p in group["params"]}
        return {name: p for name, p in self.module.named_parameters() if p in moved}

    @property
    def device(self) -> torch.device:
        """The student's device."""
        return next(iter(self.params.values())).device

    def state(self) -> StudentState:
        """The present state, sharing memory with module and optimiser."""
        buffers = dict(self.module.named_buffers())
        slots = slots_of(self.optimizer, self.names)
        known = {k: full_tensors(detached(v)) for k, v in slots.items()}
        params = full_tensors(detached(dict(self.params)))
        return StudentState(params, detached(buffers), known)

    def gradient(self) -> Params:
        """The gradient in ``.grad``, zero where there is none."""
        own = {k: p for k, p in self.params.items() if p.requires_grad}.items()
        return {
            k: full_tensor(torch.zeros_like(p) if p.grad is None else dense(p.grad))
            for k, p in own
        }

    def completed(self, state: StudentState, names: Collection[str]) -> StudentState:
        """A state with parameters added that it lacks."""
        missing = [k for k in names if k not in state.params]
        if not missing:
            return state
        own = {name: p for p, name in self.names.items()}
        if gone := [k for k in missing if k not in own]:
            raise UnsupportedStudentError(
                f"The student's steps moved {', '.join(gone)}, which it has no longer: change "
                "its modules between two estimates of the signal, not within a window."
            )
        params = cloned(full_tensors({k: own[k] for k in missing}))
        slots = dict(state.slots)
        for slot, memory in slots_of(self.optimizer, self.names).items():
            known = cloned(full_tensors({k: memory[k] for k in missing if k in memory}))
            if known:
                slots[slot] = known | slots.get(slot, {})
        return StudentState(state.params | params, state.buffers, slots)

    def snapshot(self) -> StudentState:
        """A copy of the present state."""
        params, buffers, slots = self.state()
        return StudentState(
            cloned(params), cloned(buffers), {k: cloned(v) for k, v in slots.items()}
        )

    def require_second_derivatives(self, gradient: Params) -> None:
        """Check a gradient, the first time."""
        if require_second_derivatives not in self._checked:
            require_second_derivatives(gradient.values())
            self._checked.add(require_second_derivatives)

    def require(self, check: Callable[[nn.Module], None]) -> None:
        """Run a check of the module once."""
        if check not in self._checked:
            check(self.module)
            self._checked.add(check)

    def evaluate(
        self, params: Params, buffers: Params, inputs: Tensor, taps: Sequence[str]
    ) -> tuple[Any, Params, Params]:
        """Call the student on other parameters, leaving its own state unchanged."""
        return evaluate(self.module, params, buffers, inputs, taps)


def in_full_precision(state: StudentState) -> StudentState:
    """Parameters and optimiser state in float32 or better.

    Hypergradients over many steps add up small numbers, which half precision loses.
    """
    slots = {
        slot: {k: upcast(x) for k, x in known.items()} for slot, known in state.slots.items()
    }
    return StudentState({k: upcast(p) for k, p in state.params.items()}, state.buffers, slots)


def evaluate(
    module: nn.Module, params: Params, buffers: Params, inputs: Tensor, taps: Sequence[str] = ()
) -> tuple[Any, Params, Params]:
    """Call a module on other parameters, differentiable twice and in forward mode.

    A module in half precision may be given parameters in float32: all of it runs in that then.
    """
    own = params | cloned(buffers)
    for name in overwritten(module):
        own[name] = own.get(name, module.get_parameter(name)).clone()
    if next(module.parameters()).dtype in _HALF and (full := _full(module, params)):
        own = full | {k: upcast(b) if b.is_floating_point() else b for k, b in own.items()}
        inputs = upcast(inputs) if inputs.is_floating_point() else inputs
    with record_outputs(module, taps) as features:
        outputs = replay(module, own, (inputs,))
    return outputs, features, {name: own[name].to(b.dtype) for name, b in buffers.items()}


def _full(module: nn.Module, params: Params) -> Params:
    # all parameters in float32, where one of those given is in more than the module's own
    own = dict(module.named_parameters())
    same = all(p.dtype == own[name].dtype for name, p in params.items())
    return {} if same else {name: upcast(p) for name, p in own.items()}
