"""Teachers: one row adds one. Parameters are drawn anew, so that no start is stationary."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from tests.fuzz.engine.objectives import C
from tests.fuzz.engine.own_teachers import (
    Column,
    Copies,
    Counting,
    Dropping,
    KeepPlainly,
    Losses,
    Normalising,
    OwnLosses,
    Partly,
    Plainly,
    Relative,
    Remembering,
    Scheduled,
    Shift,
    Softening,
    Table,
    Zeros,
    fixed,
    sampler,
)
from tutelage.teachers import Blending, InternalState, KeepOrDrop, LossWeigher
from tutelage.teachers import CombinedTeacher as BothOf


class Teacher(NamedTuple):
    """How a teacher is made, and what it fits."""

    build: Callable[[nn.Module], nn.Module]
    fits: str = "classes soft marked numbers several tokens"
    """kinds of targets"""
    samples: bool = False
    looks: bool = False
    """at inputs"""


def internal(student: nn.Module, *, attached: bool = False, **shown: Any) -> nn.Module:
    surface = shown.pop("surface", ("margin", "loss"))
    return InternalState(
        student,
        classes=C,
        surface=surface,
        hidden_layers=1,
        width=4,
        attached=attached,
        **shown,
    )


def tapped(student: nn.Module) -> nn.Module:
    name, layer = next((k, m) for k, m in student.named_modules() if isinstance(m, nn.Linear))
    return internal(student, tap=name, label=False, tap_width=layer.out_features)


def together(prepares: nn.Module, weighs: nn.Module) -> nn.Module:
    return BothOf(prepares, weighs)


CLASSES = "classes"
TEACHERS: Mapping[str, Teacher] = {
    "table": Teacher(lambda _: Table()),
    "plain table": Teacher(lambda _: Plainly()),
    "column": Teacher(lambda _: Column()),
    "zeros": Teacher(lambda _: Zeros()),
    "partly frozen": Teacher(lambda _: Partly()),
    "loss": Teacher(lambda _: Losses()),
    "loss, attached": Teacher(lambda _: Losses(attached=True)),
    "relative loss, attached": Teacher(lambda _: Relative()),
    "loss weigher": Teacher(lambda _: LossWeigher(width=5)),
    "plain loss weigher": Teacher(lambda _: LossWeigher(width=5, normalise=None)),
    "internal state": Teacher(internal, "classes soft marked"),
    "internal state, attached": Teacher(lambda s: internal(s, attached=True), CLASSES),
    "internal state, tapped": Teacher(tapped, "classes soft marked"),
    "own losses": Teacher(lambda _: OwnLosses()),
    "dropping": Teacher(lambda _: Dropping(), looks=True),
    "counting": Teacher(lambda _: Counting()),
    "normalising": Teacher(lambda _: Normalising()),
    "remembering": Teacher(lambda _: Remembering()),
    "scheduled": Teacher(lambda _: Scheduled()),
    "shift": Teacher(lambda _: Shift()),
    "softening": Teacher(lambda _: Softening(), CLASSES),
    "copies": Teacher(lambda _: Copies(), looks=True),
    "blending": Teacher(lambda _: Blending(C), "classes soft"),
    "shift and loss": Teacher(lambda _: together(Shift(), Losses())),
    "shift and loss, attached": Teacher(lambda _: together(Shift(), Losses(attached=True))),
    "blending and table": Teacher(lambda _: together(Blending(C), Table()), "classes soft"),
    "blending and loss": Teacher(
        lambda _: together(Blending(C), LossWeigher(width=5)), "classes soft"
    ),
    "copies and counting": Teacher(lambda _: together(Copies(), Counting()), looks=True),
    "keep or drop": Teacher(lambda _: KeepOrDrop(Table()), samples=True),
    "keep or drop plainly": Teacher(lambda _: KeepPlainly(Table()), samples=True),
    "keep or drop by loss": Teacher(lambda _: KeepPlainly(Losses()), samples=True),
    "sampler": Teacher(lambda _: sampler(), samples=True),
    "softmax sampler": Teacher(lambda _: sampler("softmax"), samples=True),
    "sampler and weights": Teacher(
        lambda _: together(sampler(), fixed(Plainly())), samples=True
    ),
    "sampler and rescaled weights": Teacher(
        lambda _: together(sampler(), fixed(Table())), samples=True
    ),
    "sampler and zeros": Teacher(lambda _: together(sampler(), fixed(Zeros())), samples=True),
}


def made(name: str, student: nn.Module, seed: int) -> nn.Module:
    """A teacher with parameters of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        teacher = TEACHERS[name].build(student)
        with torch.no_grad():
            for p in teacher.parameters():
                p.copy_(0.7 * torch.randn_like(p))
    return teacher
