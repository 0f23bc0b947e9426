"""Update rules of ``torch.optim`` as pure, differentiable functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer

from tutelage.errors import UnsupportedStudentError
from tutelage.types import Params, StudentState

Settings = Mapping[str, float | bool]


@runtime_checkable
class UpdateRule(Protocol):
    """An update rule, differentiable in state and gradients."""

    linear: ClassVar[bool]
    """whether the new parameters are an affine function of the gradients"""

    def update(
        self, state: StudentState, grads: Params, settings: Mapping[str, Settings]
    ) -> StudentState:
        """Take one step."""
        ...


@dataclass(frozen=True)
class MomentumSGD:
    """``g += wd * p;  v = mu * v + (1 - dampening) * g;  p -= lr * v``, and Nesterov's form.

    The first momentum buffer is the gradient itself, without dampening.
    """

    linear: ClassVar[bool] = True

    def update(
        self, state: StudentState, grads: Params, settings: Mapping[str, Settings]
    ) -> StudentState:
        """Take one step."""
        params, velocity = dict(state.params), dict(state.slots.get("momentum_buffer", {}))
        for name, grad in grads.items():
            s, p = settings[name], params[name]
            g = (-grad if s["maximize"] else grad) + s["weight_decay"] * p
            if s["momentum"]:
                kept = 1 - s["dampening"]
                v = s["momentum"] * velocity[name] + kept * g if name in velocity else g
                velocity[name] = v
                g = g + s["momentum"] * v if s["nesterov"] else v
            params[name] = p - s["lr"] * g
        slots = {"momentum_buffer": velocity} if velocity else {}
        return StudentState(params, state.buffers, slots)


@dataclass(frozen=True)
class AdamRule:
    """Adam and AdamW: ``p -= lr / bc1 * m / (sqrt(v / bc2) + eps)``, with bias corrections.

    Where ``v`` is exactly zero its root has no derivative; the step there is ``m / eps`` and is
    differentiated as such, so no NaN appears.
    """

    linear: ClassVar[bool] = False

    def update(
        self, state: StudentState, grads: Params, settings: Mapping[str, Settings]
    ) -> StudentState:
        """Take one step."""
        params = dict(state.params)
        slots = {name: dict(slot) for name, slot in state.slots.items()}
        for name, grad in grads.items():
            memory = {slot: tensors[name] for slot, tensors in slots.items() if name in tensors}
            params[name], memory = _adam(params[name], grad, memory, settings[name])
            for slot, tensor in memory.items():
                slots.setdefault(slot, {})[name] = tensor
        return StudentState(params, state.buffers, slots)


def _adam(p: Tensor, grad: Tensor, memory: Params, s: Settings) -> tuple[Tensor, Params]:
    zero = torch.zeros_like(p)
    g = -grad if s["maximize"] else grad
    if s["decoupled_weight_decay"]:
        p = p * (1 - s["lr"] * s["weight_decay"])
    else:
        g = g + s["weight_decay"] * p
    step = memory.get("step", torch.zeros(())) + 1
    m = s["beta1"] * memory.get("exp_avg", zero) + (1 - s["beta1"]) * g
    v = s["beta2"] * memory.get("exp_avg_sq", zero) + (1 - s["beta2"]) * g * g
    after = {"step": step, "exp_avg": m, "exp_avg_sq": v}
    if s["amsgrad"]:
        after["max_exp_avg_sq"] = torch.maximum(memory.get("max_exp_avg_sq", zero), v)
    taken = float(step.detach())
    second = after.get("max_exp_avg_sq", v)
    root = _safe_sqrt(second) / (1 - s["beta2"] ** taken) ** 0.5
    return p - s["lr"] / (1 - s["beta1"] ** taken) * m / (root + s["eps"]), after


def _safe_sqrt(x: Tensor) -> Tensor:
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, torch.ones_like(x)).sqrt(), x)


@dataclass(frozen=True)
class Clipped:
    """A rule that gets ``g * min(1, max_norm / (|g| + 1e-6))``, the norm over all parameters.

    Source: Pascanu et al. 2013, with the numbers of ``torch.nn.utils.clip_grad_norm_``.
    """

    rule: UpdateRule
    max_norm: float
    linear: ClassVar[bool] = False

    def update(
        self, state: StudentState, grads: Params, settings: Mapping[str, Settings]
    ) -> StudentState:
        """Take one step."""
        if not grads:
            return self.rule.update(state, grads, settings)
        norms = [torch.linalg.vector_norm(g) for g in grads.values()]
        norm = torch.linalg.vector_norm(torch.stack(norms))
        share = (self.max_norm / (norm + 1e-6)).clamp(max=1.0)
        return self.rule.update(state, {k: g * share for k, g in grads.items()}, settings)


def rule_for(optimizer: Optimizer, max_norm: float | None = None) -> UpdateRule:
    """The update rule of an optimiser."""
    if max_norm is not None:
        return Clipped(rule_for(optimizer), max_norm)
    if any(group.get("differentiable") for group in optimizer.param_groups):
        raise UnsupportedStudentError(
            f"{type(optimizer).__name__}(differentiable=True) cannot move a student's own "
            "parameters, which have no history. Leave differentiable away: signals have a rule "
            "of their own to differentiate the step."
        )
    if type(optimizer) is SGD:
        return MomentumSGD()
    if type(optimizer) in (Adam, AdamW):
        return AdamRule()
    raise UnsupportedStudentError(
        f"No differentiable rule for {type(optimizer).__name__}. "
        "Use torch.optim.SGD, Adam or AdamW for the student."
    )


def settings_of(optimizer: Optimizer, names: Mapping[Tensor, str]) -> dict[str, Settings]:
    """The optimiser's present settings for every parameter."""
    settings = {}
    for group in optimizer.param_groups:
        shared = _plain_settings(group)
        for p in group["params"]:
            if p not in names:
                raise UnsupportedStudentError(
                    f"The optimiser holds a parameter of shape {tuple(p.shape)} that is not "
                    "the student's. Give it an optimiser of its own."
                )
            settings[names[p]] = shared
    return settings


def _plain_settings(group: Mapping[str, object]) -> Settings:
    plain: dict[str, float | bool] = {}
    for key, value in group.items():
        if key == "betas":
            assert isinstance(value, tuple | list)
            plain["beta1"], plain["beta2"] = (float(beta) for beta in value)
        elif isinstance(value, bool):
            plain[key] = value
        elif isinstance(value, int | float | Tensor):
            plain[key] = float(value)
    return plain


def dense(tensor: Tensor) -> Tensor:
    """A tensor, or a sparse one's dense copy."""
    return tensor.to_dense() if tensor.is_sparse else tensor


def slots_of(optimizer: Optimizer, names: Mapping[Tensor, str]) -> dict[str, Params]:
    """The optimiser's state, by slot and parameter name."""
    slots: dict[str, Params] = {}
    for p, memory in optimizer.state.items():
        if p not in names:  # of a module that the student has no longer
            continue
        for slot, value in memory.items():
            if isinstance(value, Tensor):
                slots.setdefault(slot, {})[names[p]] = dense(value)
    return slots
