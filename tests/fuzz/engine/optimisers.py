"""Optimisers with their switches, and what happens to them in the middle of training."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, NAdam, Optimizer, RMSprop

Event = Callable[[int, nn.Module, Optimizer], None]


class Optimiser(NamedTuple):
    """How an optimiser is made."""

    build: Callable[[nn.Module, float], Optimizer]
    rate: float = 0.3
    momentum: bool = False
    """SGD that Reversible can undo"""
    refused: bool = False
    """there is no rule for it"""


def sgd(**switches: Any) -> Callable[[nn.Module, float], Optimizer]:
    return lambda s, lr: SGD(s.parameters(), lr=lr, **switches)


def adam(kind: type = Adam, **switches: Any) -> Callable[[nn.Module, float], Optimizer]:
    return lambda s, lr: kind(s.parameters(), lr=lr, eps=1e-3, **switches)


def groups(student: nn.Module, lr: float) -> Optimizer:
    first, *others = student.parameters()
    momentum = {"params": others, "lr": lr / 2, "momentum": 0.5, "weight_decay": 0.01}
    return SGD([{"params": [first]}, momentum], lr=lr, momentum=0.9)


def adam_groups(student: nn.Module, lr: float) -> Optimizer:
    first, *others = student.parameters()
    return Adam([{"params": [first], "betas": (0.5, 0.9)}, {"params": others}], lr=lr, eps=1e-3)


def tensor_rate(student: nn.Module, lr: float) -> Optimizer:
    return SGD(student.parameters(), lr=torch.tensor(lr, dtype=torch.float64), momentum=0.9)


def last_part(student: nn.Module, lr: float) -> Optimizer:
    """Moves all but the first parameter."""
    return SGD(list(student.parameters())[1:], lr=lr, momentum=0.9)


OPTIMISERS: Mapping[str, Optimiser] = {
    "momentum": Optimiser(sgd(momentum=0.9), momentum=True),
    "sgd": Optimiser(sgd()),
    "low momentum": Optimiser(sgd(momentum=0.5), momentum=True),
    "decayed momentum": Optimiser(sgd(momentum=0.9, weight_decay=0.02), momentum=True),
    "nesterov": Optimiser(sgd(momentum=0.9, nesterov=True)),
    "dampened": Optimiser(sgd(momentum=0.9, dampening=0.3)),
    "maximising": Optimiser(sgd(momentum=0.9, maximize=True), 0.05, momentum=True),
    "maximising decayed": Optimiser(sgd(weight_decay=0.1, maximize=True), 0.05),
    "foreach": Optimiser(sgd(momentum=0.9, foreach=True), momentum=True),
    "tensor rate": Optimiser(tensor_rate, momentum=True),
    "groups": Optimiser(groups, momentum=True),
    "last part": Optimiser(last_part, momentum=True),
    "adam": Optimiser(adam(), 0.05),
    "adam decayed": Optimiser(adam(weight_decay=0.05), 0.05),
    "amsgrad": Optimiser(adam(amsgrad=True), 0.05),
    "adam maximising": Optimiser(adam(maximize=True), 0.02),
    "adam groups": Optimiser(adam_groups, 0.05),
    "adamw": Optimiser(adam(AdamW, weight_decay=0.1), 0.05),
    "rmsprop": Optimiser(lambda s, lr: RMSprop(s.parameters(), lr=lr), 0.01, refused=True),
    "nadam": Optimiser(lambda s, lr: NAdam(s.parameters(), lr=lr), 0.01, refused=True),
}


def scheduled(_: int, __: nn.Module, optimizer: Optimizer) -> None:
    for place, group in enumerate(optimizer.param_groups):
        group["lr"] = group["lr"] * (0.9, 0.7)[place % 2]


def switched(number: int, _: nn.Module, optimizer: Optimizer) -> None:
    """Another weight decay from the third step on."""
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.05 if number >= 2 else 0.0


def first_of(student: nn.Module) -> nn.Parameter:
    return next(student.parameters())


def frozen(number: int, student: nn.Module, _: Optimizer) -> None:
    first_of(student).requires_grad_(number < 2)


def thawed(number: int, student: nn.Module, _: Optimizer) -> None:
    first_of(student).requires_grad_(number >= 2)


def in_turns(number: int, student: nn.Module, _: Optimizer) -> None:
    first_of(student).requires_grad_(number % 2 == 0)


def grown(number: int, student: nn.Module, optimizer: Optimizer) -> None:
    """Starts without the first parameter, which gets a group of its own at the second step."""
    if number == 0:
        group = optimizer.param_groups[0]
        group["params"] = [p for p in group["params"] if p is not first_of(student)]
    elif number == 1:
        held = [p for group in optimizer.param_groups for p in group["params"]]
        if not any(p is first_of(student) for p in held):
            optimizer.add_param_group({"params": [first_of(student)], "lr": 0.05})


def nothing(number: int, student: nn.Module, optimizer: Optimizer) -> None:
    """Nothing happens."""


EVENTS: Mapping[str, Event] = {
    "nothing": nothing,
    "scheduled": scheduled,
    "switched": switched,
    "frozen": frozen,
    "thawed": thawed,
    "in turns": in_turns,
    "grown": grown,
}
"""called before every step"""
