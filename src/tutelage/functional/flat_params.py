"""Updating many small tensors as one: of those, the calls cost more than the arithmetic."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from tutelage.functional.optim import Rule, Settings
from tutelage.types import Params, StudentState

SMALL = 2**16
"""elements up to which a tensor is joined with others"""


def update_jointly(
    rule: Rule, state: StudentState, grads: Params, settings: Mapping[str, Settings]
) -> StudentState:
    """``rule.update``, with fewer calls.

    Args:
        rule: The rule, elementwise.
        state: The student before the step.
        grads: Gradients of the loss; a parameter without one is left alone.
        settings: The optimiser's settings for every parameter in ``grads``.

    Returns:
        The student after it.
    """
    joint = Joint.of(state, grads, settings)
    return joint.placed(rule.update(joint.state, joint.grads, joint.settings), state)


class Joint(NamedTuple):
    """What a step updates, with one tensor for each group of parameters.

    A group goes by the name of its first parameter.
    """

    state: StudentState
    grads: Params
    settings: dict[str, Settings]
    groups: dict[str, list[str]]

    @classmethod
    def of(
        cls, state: StudentState, grads: Params, settings: Mapping[str, Settings]
    ) -> "Joint":
        """Join what can be.

        Args:
            state: The student.
            grads: Gradients of the loss; a parameter without one is left out.
            settings: The optimiser's settings for every parameter in ``grads``.

        Returns:
            What the rule needs to update those parameters.
        """
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
        """Join other tensors of the same names.

        Args:
            tensors: Named tensors; of a group they hold all or none.

        Returns:
            One tensor for each group that they hold.
        """
        return {k: join(tensors, names) for k, names in self.groups.items() if k in tensors}

    def part(self, tensors: Params, like: Params) -> Params:
        """Take apart what was joined.

        Args:
            tensors: One tensor for each group, or for some.
            like: Tensors of the shapes wanted.

        Returns:
            Views by name.
        """
        parts: Params = {}
        for k, tensor in tensors.items():
            parts |= part(tensor, self.groups[k], like)
        return parts

    def placed(self, joint: StudentState, state: StudentState) -> StudentState:
        """Take apart new values and put them into a student.

        Args:
            joint: The new values.
            state: The student.

        Returns:
            The student with them; what was not joined is as it was.
        """
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
    """Names in groups of the same settings, type and past.

    Large tensors and those of unusual layout stay by themselves.

    Args:
        tensors: Named tensors.
        names: Those to group.
        settings: The optimiser's settings for each of them.
        slots: What the optimiser remembers of them.

    Returns:
        The groups.
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
    """Some tensors as one, flat, in order; a single one keeps its shape.

    Args:
        tensors: Named tensors.
        names: Which of them.

    Returns:
        One tensor.
    """
    if len(names) == 1:
        return tensors[names[0]]
    return torch.cat([tensors[k].reshape(-1) for k in names])


def part(tensor: Tensor, names: list[str], like: Params) -> Params:
    """Take apart what was joined.

    Args:
        tensor: One tensor.
        names: What it holds, in order.
        like: Tensors of the shapes wanted.

    Returns:
        Views by name.
    """
    if len(names) == 1:
        return {names[0]: tensor}
    parts = tensor.split([like[k].numel() for k in names])
    return {k: x.view(like[k].shape) for k, x in zip(names, parts, strict=True)}
