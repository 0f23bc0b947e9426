"""Joining tensors for an update changes calls, not numbers."""

import pytest
import torch

from tutelage.functional.flat_params import SMALL, alike, update_jointly
from tutelage.functional.optim import AdamRule, MomentumSGD
from tutelage.types import StudentState

SGD = {
    "lr": 0.1,
    "momentum": 0.9,
    "dampening": 0.0,
    "weight_decay": 0.01,
    "nesterov": False,
    "maximize": False,
}
ADAM = {
    "lr": 0.01,
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "weight_decay": 0.01,
    "amsgrad": False,
    "maximize": False,
    "decoupled_weight_decay": False,
}
SHAPES = {"a": (3, 2), "b": (), "c": (4, 2, 3, 3), "d": (5,), "idle": (2,)}


def tensors(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {k: torch.randn(shape, generator=generator) for k, shape in SHAPES.items()}


@pytest.mark.parametrize(
    ("rule", "plain"), [(MomentumSGD(), SGD), (AdamRule(), ADAM)], ids=["sgd", "adam"]
)
def test_steps_taken_jointly_have_the_bits_of_steps_taken_one_by_one(rule, plain) -> None:
    start = tensors(0)
    start["c"] = start["c"].to(memory_format=torch.channels_last)
    apart = together = StudentState(start, {}, {})
    for number in range(3):
        names = ("a", "b", "c", "d") if number else ("a", "c")  # some join in later
        settings = {k: plain | {"lr": 0.5 if k == "d" else 0.1} for k in names}
        grads = {k: g for k, g in tensors(number + 1).items() if k in names}
        apart = rule.update(apart, grads, settings)
        together = update_jointly(rule, together, grads, settings)
    assert together.slots.keys() == apart.slots.keys()
    for slot, memory in {"": apart.params, **apart.slots}.items():
        got = together.slots[slot] if slot else together.params
        assert got.keys() == memory.keys()
        for k, want in memory.items():
            assert torch.equal(got[k], want), (slot, k)
            assert got[k].stride() == want.stride(), (slot, k)


def test_only_small_tensors_of_one_kind_are_joined() -> None:
    params = tensors(0)
    params |= {
        "large": torch.zeros(SMALL + 1),
        "wide": torch.zeros(3, dtype=torch.float64),
        "turned": torch.zeros(2, 3).T,
    }
    settings = {k: SGD | ({"lr": 0.5} if k == "d" else {}) for k in params}
    slots = {"momentum_buffer": {k: v for k, v in params.items() if k != "idle"}}
    groups = alike(params, params, settings, slots)
    assert groups == [["a", "b", "c"], ["d"], ["idle"], ["large"], ["wide"], ["turned"]]
