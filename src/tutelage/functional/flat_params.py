"""Flattening of small parameters into groups, to save kernel launches."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from tutelage.functional.optim import Settings, UpdateRule
from tutelage.types import Params, StudentState

SMALL = 2**16
"""elements up to which a tensor is flattened with others"""


def update_jointly(
    rule: UpdateRule, state: StudentState, grads: Params, settings: Mapping[str, Settings]
) -> StudentState:
    """``rule.update`` on flattened groups."""
    joint = FlatParams.of(state, grads, settings)
    return joint.placed(rule.update(joint.state, joint.grads, joint.settings), state)


class FlatParams(NamedTuple):
    """State and gradients of a step, with one tensor for each group of parameters.

    A group goes by the name of its first parameter.
    """

    state: StudentState
    grads: Params
    settings: dict[str, Settings]
    groups: dict[str, list[str]]

    @classmethod
    def of(
        cls, state: StudentState, grads: Params, settings: Mapping[str, Settings]
    ) -> "FlatParams":
        """Flatten a step."""
        groups = {
            names[0]: names for names in alike(state.params, grads, settings, state.slots)
        }
        empty = cls(state, grads, {k: settings[k] for k in groups}, groups)
        slots = {
            slot: {k: memory[k] for k in groups if k in memory}
            if slot == "step"
            else empty.join(memory)
            for slot, memory in state.slots.items()
        }
        joint = StudentState(empty.join(state.params), {}, slots)
        return empty._replace(state=joint, grads=empty.join(grads))

    def join(self, tensors: Params) -> Params:
        """Flatten other tensors of the same names."""
        return {k: join(tensors, names) for k, names in self.groups.items() if k in tensors}

    def part(self, tensors: Params, like: Params) -> Params:
        """Split flattened tensors."""
        parts: Params = {}
        for k, tensor in tensors.items():
            parts |= part(tensor, self.groups[k], like)
        return parts

    def placed(self, joint: StudentState, state: StudentState) -> StudentState:
        """Split updated values and put them into a state."""
        slots = dict(state.slots)
        for slot, memory in joint.slots.items():
            new = (
                {k: x for first, x in memory.items() for k in self.groups[first]}
                if slot == "step"
                else self.part(memory, state.params)
            )
            slots[slot] = state.slots.get(slot, {}) | new
        params = state.params | self.part(joint.params, state.params)
        return StudentState(params, state.buffers, slots)


def alike(
    tensors: Params,
    names: Iterable[str],
    settings: Mapping[str, Settings],
    slots: Mapping[str, Params],
) -> list[list[str]]:
    """Group names by settings, dtype and optimiser state.

    Large tensors and those of unusual layout stay by themselves.
    """
    groups: dict[tuple, list[str]] = {}
    for name in names:
        x = tensors[name]
        known = tuple(slot for slot, memory in slots.items() if name in memory)
        taken = float(slots["step"][name].detach()) if "step" in known else 0.0
        alone = x.numel() > SMALL or x.stride() != x.reshape(-1).view(x.shape).stride()
        past = (x.dtype, x.device, known, taken, name if alone else "")
        groups.setdefault((tuple(settings[name].items()), *past), []).append(name)
    return list(groups.values())


def join(tensors: Params, names: list[str]) -> Tensor:
    """Concatenate tensors; a single one keeps its shape."""
    if len(names) == 1:
        return tensors[names[0]]
    return torch.cat([tensors[k].reshape(-1) for k in names])


def part(tensor: Tensor, names: list[str], like: Params) -> Params:
    """Split a concatenated tensor."""
    if len(names) == 1:
        return {names[0]: tensor}
    parts = tensor.split([like[k].numel() for k in names])
    return {k: x.view(like[k].shape) for k, x in zip(names, parts, strict=True)}
