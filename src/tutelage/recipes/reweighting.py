"""How a student is trained on weighted examples, for every table about deep interactions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

from tutelage.data.sources import load
from tutelage.data.splits import limit_rows
from tutelage.models.catalogue import Images, build_student
from tutelage.objectives import Objective, cross_entropy
from tutelage.randomness import seeded
from tutelage.signals import Reversible, Signal
from tutelage.study.judgement import Opinion, accuracy, opinion, trust
from tutelage.study.material import (
    Material,
    Source,
    Streams,
    given_labels,
    open_streams,
    seed_material,
)
from tutelage.study.settings import TrainSettings
from tutelage.study.trainee import learning_rate
from tutelage.teachers import Plain
from tutelage.tutor import Tutor


@dataclass(frozen=True)
class Settings:
    """What decides a job; the defaults are the paper's with labels flipped."""

    data: str = "cifar10"
    student: str = "resnet32"
    examples: int | None = None
    """training images, class balanced, beside the held-out ones; None: all"""
    held_out: int = 1000
    tested: int | None = None
    """test images, class balanced; None: all"""
    noise: str = "flip2:0.4"
    imbalance: float | None = None
    augment: Literal["none", "crop", "crop-flip"] = "crop-flip"
    batch: int = 100
    epochs: int = 60
    lr: float = 0.1
    weight_decay: float = 5e-4
    decay_at: tuple[float, ...] = (2 / 3, 5 / 6)
    """shares of the run after which the learning rate is divided by ten"""
    teacher_lr: float = 1e-3
    every: int = 20
    """student steps between two teacher steps"""
    look_back: int = 2
    """student steps that the teacher's gradient looks back over"""


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


TRUST = ("weight_right", "weight_wrong", "auroc")
PLAIN = Way(lambda *_: Plain(), signal=None)
"""no teacher"""


class Trained(NamedTuple):
    """A student at the end of its schedule."""

    tutor: Tutor
    material: Material
    streams: Streams
    series: Mapping[str, list[float]]
    """one number per epoch"""

    def errors(self) -> dict[str, float]:
        """Test error.

        Returns:
            Of the student at the end, and of the best epoch on held-out images, in %.
        """
        held_out, test = self.series["held-out error"], self.series["test error"]
        return {"error": test[-1], "chosen_error": test[held_out.index(min(held_out))]}

    def opinion(self) -> Opinion:
        """What student and teacher make of the training set at the end.

        Returns:
            Per training example.
        """
        return opinion(self.tutor, self.streams.train, self.streams.held_out.draw(0))

    def trust(self) -> dict[str, float]:
        """How the teacher's weights tell right from wrong labels at the end.

        Returns:
            ``weight_right``, ``weight_wrong``, ``auroc``; NaN where there are none.
        """
        wrong = self.material.wrong
        none: dict[str, float] = {}
        found = none if wrong is None else trust(self.opinion().weights, wrong)
        return {k: found.get(k, float("nan")) for k in TRUST}


@cache
def source(data: str, noise: str) -> Source:
    """The data, read once in each process.

    Args:
        data: A source as ``tutelage train`` takes it.
        noise: Wrong labels, likewise.

    Returns:
        The data before a seed has been chosen.
    """
    splits = load(data)
    return Source(splits, given_labels(splits.train, TrainSettings(data=data, noise=noise)))


def asked(of: Settings) -> TrainSettings:
    """The settings as ``tutelage train`` would be given them.

    Args:
        of: The scale's.

    Returns:
        Those that data, batches and schedule are made from.
    """
    return TrainSettings(
        data=of.data,
        student=of.student,
        noise=of.noise,
        imbalance=of.imbalance,
        held_out=of.held_out,
        limit=of.examples,
        augment=of.augment,
        epochs=of.epochs,
        batch_size=of.batch,
        lr=of.lr,
        weight_decay=of.weight_decay,
        decay_at=of.decay_at,
    )


def tutored(
    way: Way, seed: int, of: Settings, shown: Images, steps: int, device: torch.device
) -> Tutor:
    """A fresh student of a seed with its teacher.

    Args:
        way: How it is taught.
        seed: The same one gives every arm the same student.
        of: The scale's settings.
        shown: What the student sees.
        steps: Of the whole run.
        device: Where.

    Returns:
        The tutor.
    """
    made = build_student(of.student, **shown._asdict(), seed=seed)
    student = made.to(device)
    rule = SGD(student.parameters(), of.lr, momentum=0.9, weight_decay=of.weight_decay)
    with seeded(seed, torch.device("cpu")):
        teacher = way.build(student, shown).to(device)
    if way.signal is None:
        objective = way.objective
        return Tutor(student, rule, teacher, total_steps=steps, objective=objective, seed=seed)
    return Tutor(
        student,
        rule,
        teacher,
        Adam(teacher.parameters(), of.teacher_lr),
        signal=way.signal(way.look_back or of.look_back),
        teacher_every=way.every or of.every,
        total_steps=steps,
        objective=way.objective,
        seed=seed,
    )


def train(way: Way, seed: int, of: Settings, device: torch.device) -> Trained:
    """Train one student by the schedule.

    Args:
        way: How it is taught.
        seed: Of everything that is drawn.
        of: The scale's settings.
        device: Where.

    Returns:
        The student at the end, with what was measured after each epoch.
    """
    how = asked(of)
    material = _tested(seed_material(source(of.data, of.noise), how, seed), of.tested)
    streams = open_streams(material, how, seed, device)
    images = material.train.images
    shown = Images(len(material.train.classes), images.shape[1], images.shape[2])
    tutor = tutored(way, seed, of, shown, len(streams.train) * of.epochs, device)
    series: dict[str, list[float]] = {"test error": [], "held-out error": []}
    for epoch in range(of.epochs):
        for group in tutor.optimizer.param_groups:
            group["lr"] = learning_rate(how, epoch)
        tutor.student.train()
        for batch in streams.train.epoch(epoch):
            held_out = streams.held_out.draw(tutor.steps) if tutor.wants_held_out else None
            tutor.step(batch, held_out)
        held = accuracy(tutor, streams.held_out)
        tutor.best_accuracy = max(tutor.best_accuracy, held)
        series["held-out error"].append(100 * (1 - held))
        last = epoch + 1 == of.epochs
        tested = streams.test if last else streams.curve
        series["test error"].append(100 * (1 - accuracy(tutor, tested)))
    return Trained(tutor, material, streams, series)


def _tested(material: Material, count: int | None) -> Material:
    test = material.test
    if count is None:
        return material
    rows: Tensor = limit_rows(test.labels, count, len(test.classes), seed=0)
    return Material(material.train, material.truth, material.held_out, test.rows(rows))
