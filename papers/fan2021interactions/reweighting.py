"""How a student is trained on weighted examples, for every table about deep interactions."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import nn
from torch.optim import SGD, Adam

from papers.fan2021interactions.reweighting_settings import (
    Settings,
    material_of,
    shown,
    train_settings_of,
)
from tutelage.errors import UsageError
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.models import internal_state
from tutelage.models.catalogue import Images, build_student
from tutelage.randomness import seeded
from tutelage.signals import Lookahead, Reversible, Signal
from tutelage.teachers import PAPER_SURFACE, InternalState, LossWeigher, MentorNetPD, Plain
from tutelage.training.tutor import Tutor
from tutelage_cli.train.evaluation import Opinion, accuracy, opinion, trust
from tutelage_cli.train.material import Material, Streams, open_streams
from tutelage_cli.train.trainee import learning_rate


class Way(NamedTuple):
    """How the students of an arm are taught."""

    build: Callable[[nn.Module, Images], nn.Module]
    """the teacher, from the student and what it is shown"""
    signal: Callable[[int], Signal] | None = Reversible
    """from the steps to look back over; None where nothing is learnt"""
    every: int | None = None
    """student steps between two teacher steps; the settings' where None"""
    look_back: int | None = None
    """the settings' where None"""
    objective: Objective = cross_entropy
    """what the student descends"""
    metric: Objective | None = None
    """what held-out images judge by; the objective where None"""
    teacher_lr: float | None = None
    """the settings' where None"""


def _plain(_student: nn.Module, _images: Images) -> Plain:
    return Plain()


TRUST = ("weight_right", "weight_wrong", "auroc")
PLAIN = Way(_plain, signal=None)
"""no teacher"""


class Trained(NamedTuple):
    """A student at the end of its schedule."""

    tutor: Tutor
    material: Material
    streams: Streams
    series: Mapping[str, list[float]]
    """one number per epoch"""

    def errors(self) -> dict[str, float]:
        """Error on the test images, the same ones throughout."""
        held_out, test = self.series["held-out error"], self.series["test error"]
        chosen = test[held_out.index(min(held_out))]
        return {"error": test[-1], "chosen_error": chosen, "best_error": min(test)}

    def opinion(self) -> Opinion:
        """What student and teacher make of the training set at the end."""
        return opinion(self.tutor, self.streams.train, self.streams.held_out.draw(0))

    def trust(self) -> dict[str, float]:
        """How the teacher's weights tell right from wrong labels at the end."""
        wrong = self.material.wrong
        none: dict[str, float] = {}
        found = none if wrong is None else trust(self.opinion().weights, wrong)
        return {k: found.get(k, float("nan")) for k in TRUST}


def tutored(
    way: Way, seed: int, settings: Settings, images: Images, steps: int, device: torch.device
) -> Tutor:
    """A fresh student of a seed with its teacher."""
    made = build_student(settings.student, **images._asdict(), seed=seed)
    student = made.to(device)
    rule = SGD(
        student.parameters(), settings.lr, momentum=0.9, weight_decay=settings.weight_decay
    )
    with seeded(seed, torch.device("cpu")):
        teacher = way.build(student, images).to(device)
    if way.signal is None:
        objective = way.objective
        return Tutor(student, rule, teacher, total_steps=steps, objective=objective, seed=seed)
    return Tutor(
        student,
        rule,
        teacher,
        Adam(teacher.parameters(), way.teacher_lr or settings.teacher_lr),
        signal=way.signal(way.look_back or settings.look_back),
        teacher_every=way.every or settings.every,
        total_steps=steps,
        objective=way.objective,
        metric=way.metric,
        seed=seed,
    )


def train(way: Way, seed: int, settings: Settings, device: torch.device) -> Trained:
    """Train one student by the schedule, on the data of its seed."""
    return train_on(material_of(settings, seed), way, seed, settings, device)


def train_on(
    material: Material, way: Way, seed: int, settings: Settings, device: torch.device
) -> Trained:
    """Train one student by the schedule, on given data."""
    train_settings = train_settings_of(settings)
    streams = open_streams(material, train_settings, seed, device)
    steps = len(streams.train) * settings.epochs
    tutor = tutored(way, seed, settings, shown(material), steps, device)
    series: dict[str, list[float]] = {"test error": [], "held-out error": []}
    for epoch in range(settings.epochs):
        for group in tutor.optimizer.param_groups:
            group["lr"] = learning_rate(train_settings, epoch)
        tutor.student.train()
        for batch in streams.train.epoch(epoch):
            held_out = streams.held_out.draw(tutor.steps) if tutor.wants_held_out else None
            tutor.step(batch, held_out)
        held = accuracy(tutor, streams.held_out)
        tutor.best_accuracy = max(tutor.best_accuracy, held)
        series["held-out error"].append(100 * (1 - held))
        series["test error"].append(100 * (1 - accuracy(tutor, streams.test)))
    return Trained(tutor, material, streams, series)


def ready(ways: Mapping[str, Way], settings: Settings) -> None:
    """Read the data, so that it is cached, and find what does not fit it before any job."""
    material = material_of(settings, 0)
    images = shown(material)
    if settings.batch > len(material.train):
        raise UsageError(
            f"batch is {settings.batch}, but there are {len(material.train)} images to train "
            "on: give that or less."
        )
    for arm, way in ways.items():
        try:
            tutored(way, 0, settings, images, settings.epochs, torch.device("cpu"))
        except UsageError:
            raise
        except (RuntimeError, ValueError) as error:  # torch's own, by any layer
            reason = " ".join(str(error).split())
            raise UsageError(
                f"{settings.student} taught by {arm} cannot be made for "
                f"{images.size}x{images.size} images of {images.channels} channels: {reason}"
            ) from error


FEATURES: dict[str, tuple[str | None, bool, bool]] = {
    "I0+M0": ("I0", True, False),
    "I0": ("I0", False, False),
    "M0": (None, True, False),
    "M1": (None, False, True),
    "M0+M1": (None, True, True),
    "I0+M0+M1": ("I0", True, True),
    "I1+M0": ("I1", True, False),
    "I2+M0": ("I2", True, False),
    "I3+M0": ("I3", True, False),
}
"""what the paper's ablations show the teacher: internal state, label, surface facts"""


def _built(
    features: str,
    hidden_layers: int,
    deep: bool,
    level: str,
    student: nn.Module,
    images: Images,
) -> nn.Module:
    state, label, surface = FEATURES[features]
    image = (images.channels, images.size, images.size)
    tap = None if state is None else internal_state(student, state, image)
    return InternalState(
        student,
        classes=images.classes,
        tap=None if tap is None else tap.name,
        tap_width=None if tap is None else tap.width,
        label=label,
        surface=PAPER_SURFACE if surface else (),
        hidden_layers=hidden_layers,
        deep=deep,
        level=level,
    )


def interactions(
    features: str = "I0+M0",
    *,
    hidden_layers: int = 0,
    deep: bool = False,
    level: str = "free",
    every: int | None = None,
    look_back: int | None = None,
) -> Way:
    """A teacher of deep interactions that sees some of the paper's features."""
    build = partial(_built, features, hidden_layers, deep, level)
    return Way(build, every=every, look_back=look_back)


def _margin_loss(level: str, student: nn.Module, images: Images) -> nn.Module:
    seen = ("margin", "loss")
    made = {"classes": images.classes, "label": False, "surface": seen, "level": level}
    return InternalState(student, **made, hidden_layers=1, width=32)


def margin_loss(level: str) -> Way:
    """The teacher of ``tutelage train``: margin and loss, one hidden layer of 32."""
    return Way(partial(_margin_loss, level))


def _loss_weigher(_student: nn.Module, _images: Images) -> LossWeigher:
    return LossWeigher()


def _one_step_ahead(_look_back: int) -> Lookahead:
    return Lookahead()


def _mentor_net(_student: nn.Module, _images: Images) -> MentorNetPD:
    return MentorNetPD()


META_WEIGHT_NET = Way(_loss_weigher, signal=_one_step_ahead, every=1)
MENTOR_NET = Way(_mentor_net, signal=None)
