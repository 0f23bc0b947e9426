"""A learned, frozen teacher for another student and for another data set.

Fan et al. 2021, Appendix B. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any

import torch
from torch import nn

from papers.fan2021interactions.reweighting import (
    PLAIN,
    Inputs,
    Method,
    Settings,
    Student,
    Trained,
    check_arms,
    inputs_of,
    interactions,
    make_student,
    material_of,
    train,
    train_on,
)
from papers.fan2021interactions.tables import CLEAN, METRICS
from papers.framework.recipe import Outcome, Recipe, above, below, curves, expectation
from tutelage.errors import UsageError
from tutelage.models import internal_state
from tutelage.randomness import mixed_seed
from tutelage.teachers import InternalState, for_other_classes
from tutelage_cli.claims import Claim


@dataclass(frozen=True)
class Transfer(Settings):
    """Settings of a job: what the teacher is learned with, and what it then teaches."""

    other_student: Student = "resnet110"
    other_data: str = "cifar100"
    other_examples: int | None = None  # training images of the other set; None: all

    def target(self, where: str) -> Settings:
        """The student and data that are taught."""
        if where == "student":
            return replace(self, student=self.other_student)
        if where == "data":
            return replace(self, data=self.other_data, examples=self.other_examples)
        return self


WHERE = ("same", "student", "data")
"""what the frozen teacher teaches: a new student with the network and data with which it was
learned, another network, the same network on another data set"""
ARMS = tuple(f"{where}.{teaching}" for where in WHERE for teaching in ("plain", "frozen"))
ROWS = {
    "student": "ResNet-32 -> ResNet-110 (CIFAR-10)",
    "data": "CIFAR-10 -> CIFAR-100 (ResNet-32)",
}
SOURCE = interactions()


@cache
def learned(seed: int, settings: Transfer, device: torch.device) -> InternalState:
    """The teacher as it is at the end of its first student's schedule.

    That student has another initialisation than the students of ``seed`` that are taught later,
    and is trained on the same images.
    """
    material, own = material_of(settings, seed), mixed_seed(seed, 1)
    teacher = train_on(material, SOURCE, own, settings, device).tutor.teacher
    assert isinstance(teacher, InternalState)
    return teacher.requires_grad_(requires_grad=False)


def frozen(teacher: InternalState) -> Method:
    """A method with a teacher that is not trained further."""
    return Method(partial(_fitted, teacher), signal=None)


def _fitted(teacher: InternalState, student: nn.Module, inputs: Inputs) -> InternalState:
    tap = internal_state(student, "I0", inputs.shape)
    if tap.width != teacher.tap_width:
        raise UsageError(
            f"The teacher was learned with {teacher.tap_width} features, but "
            f"{type(student).__name__} gives {tap.width} of examples of shape "
            f"{inputs.shape}: give other_student and other_data with as many."
        )
    if inputs.classes == teacher.classes:
        return teacher
    return for_other_classes(teacher, student, inputs.classes)


def counted(trained: Trained) -> float:
    """Effective number of training images, ``(sum w)^2 / sum w^2``, in percent."""
    w = trained.evaluate().weights.double()
    return float(100 * w.sum().square() / (len(w) * w.square().sum()).clamp(min=1e-300))


def run(arm: str, seed: int, settings: Transfer, device: torch.device) -> Outcome:
    """Train one student with one seed, under no teacher or a frozen one."""
    where, _, teaching = arm.partition(".")
    method = PLAIN if teaching == "plain" else frozen(learned(seed, settings, device))
    trained = train(method, seed, settings.target(where), device)
    found = {name: error for name, error in trained.errors().items() if name in METRICS}
    return Outcome(found | {"counted": counted(trained)}, trained.series)


def prepare(settings: Transfer) -> None:
    """Read both data sets once, and refuse what could not be run."""
    check_arms({"the teacher": SOURCE}, settings)
    inputs = inputs_of(material_of(settings, 0))
    untaught = SOURCE.build(make_student(settings.student, inputs, 0), inputs)
    assert isinstance(untaught, InternalState)
    for where in WHERE:
        check_arms({"a frozen teacher": frozen(untaught)}, settings.target(where))


_SMALL = {"student": "cnn", "other_student": "cnn4", "augment": "none"}
_TINY = {"examples": 100, "held_out": 50, "tested": 20, "batch": 50, "other_examples": 100}
_SCALES: Mapping[str, Mapping[str, Any]] = {
    "smoke": {**_SMALL, **_TINY},
    "mini": {**_SMALL, "examples": 2000, "epochs": 20, "other_examples": 5000},
    "hours": {"other_student": "head-7", "other_examples": 10_000},
    "gpu": {"other_student": "resnet32", "other_examples": 5000},
    "paper": {},
}
RECIPE = Recipe(
    name="interactions-transfer",
    title="A frozen teacher of internal states does not transfer to other networks or data.",
    paper="l2tdi",
    where="Appendix B",
    arms=ARMS,
    metrics=METRICS
    | {"counted": "effective number of training images, (sum w)^2 / sum w^2, at the end, %"},
    settings={k: Transfer(**{**asdict(CLEAN[k]), **new}) for k, new in _SCALES.items()},
    minutes={"smoke": 0.5, "mini": 8, "gpu": 10, "paper": 700},
    run=run,
    claims=(
        Claim(
            "On another network, the frozen teacher gives a higher test error than no teacher.",
            above("error", "student.frozen", "student.plain"),
        ),
        Claim(
            "On another data set, without its label embedding, the frozen teacher gives a "
            "higher test error than no teacher.",
            above("error", "data.frozen", "data.plain"),
        ),
        expectation(
            "On a new student of the same network and data, the test error with the frozen "
            "teacher is less than one point above that with no teacher.",
            below("error", "same.frozen", "same.plain", margin=-1.0),
        ),
    ),
    table="Appendix B",
    printed={
        (f"{where}.frozen", "chosen_error"): (f"teacher transfer {row}", "Error rate")
        for where, row in ROWS.items()
    },
    plots=(
        curves("Test error, same data", "%", ARMS[:4], "test error"),
        curves("Test error, another data set", "%", ARMS[4:], "test error"),
    ),
    prepare=prepare,
)
