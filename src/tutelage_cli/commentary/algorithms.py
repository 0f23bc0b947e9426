"""Algorithms that learn a commentary: over the runs of many students, or along one run."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count, islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from tutelage.models import MaskUNet
from tutelage.randomness import mixed_seed, seeded
from tutelage.signals import Implicit, Neumann, Replayed
from tutelage.teachers import AttentionMask, Blending
from tutelage.training.loops import alternating, episodic
from tutelage.training.tutor import Tutor
from tutelage.types import Batch
from tutelage_cli.commentary.settings import LearnSettings
from tutelage_cli.data.batches import SeededBatches
from tutelage_cli.data.images import ImageSet
from tutelage_cli.train.arms import TAUGHT, device_of, new_student
from tutelage_cli.train.material import Streams
from tutelage_cli.train.students import Data


class LearningAlgorithm(ABC):
    """Learns a teacher in episodes, with a state dict between two."""

    signal: str
    """by what it learns, as text"""

    def __init__(self, settings: LearnSettings, streams: Streams) -> None:
        self.settings, self.train = settings, streams.train
        self.held_out = replace(streams.held_out, size=settings.held_out_batch_or_default)
        self.teacher = build_teacher(settings, streams.train.examples)
        self.optimizer = Adam(self.teacher.parameters(), settings.teacher_lr_or_default)
        self.skipped = 0
        """teacher steps left out because their gradient was not finite"""

    @abstractmethod
    def episode(self, number: int) -> Tensor:
        """Run an episode; returns its held-out loss."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """What has to be kept to go on."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""


class ManyRuns(LearningAlgorithm):
    """Algorithm 1 of Raghu et al. 2021: an episode is a fresh student and a teacher step."""

    def __init__(self, settings: LearnSettings, streams: Streams) -> None:
        super().__init__(settings, streams)
        self.signal = f"{Replayed.__name__}({settings.steps} steps, whole runs)"

    def episode(self, number: int) -> Tensor:
        """Train a fresh student and take a teacher step."""
        settings = self.settings
        first = number * settings.steps
        episodes = episodic(
            lambda _: fresh_student(settings, self.train.examples, number),
            self.teacher,
            self.optimizer,
            lambda _: islice(_batches_from(self.train, first), settings.steps),
            lambda _: self.held_out.draw(number),
            signal=Replayed(settings.steps),
            seed=mixed_seed(settings.seed, number),
        )
        episode = next(episodes)
        self.skipped += episode.skipped
        return episode.held_out_loss

    def state_dict(self) -> dict[str, Any]:
        """What has to be kept to go on."""
        kept = {"teacher": self.teacher.state_dict(), "optimizer": self.optimizer.state_dict()}
        return kept | {"skipped": self.skipped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.teacher.load_state_dict(state["teacher"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.skipped = state["skipped"]


class OneRun(LearningAlgorithm):
    """Algorithm 2 of Raghu et al. 2021: one student, a teacher step after each of its steps."""

    signal = f"{Implicit.__name__}({Neumann.__name__}, 1 term)"

    def __init__(self, settings: LearnSettings, streams: Streams) -> None:
        super().__init__(settings, streams)
        self.tutor = Tutor(
            *fresh_student(settings, streams.train.examples, 0),
            self.teacher,
            self.optimizer,
            signal=Implicit(Neumann(1, settings.lr)),
            total_steps=settings.steps * settings.episodes,
            seed=settings.seed,
        )
        self.tutor.cautions = None  # the command gives them before the run

    def episode(self, number: int) -> Tensor:
        """Take the steps of an episode."""
        first, losses = number * self.settings.steps, []
        batches = islice(_batches_from(self.train, first), self.settings.steps)
        for record in alternating(self.tutor, batches, map(self.held_out.draw, count(first))):
            assert record.held_out_loss is not None
            losses.append(record.held_out_loss)
        self.skipped = self.tutor.skipped_teacher_steps
        return torch.stack(losses).mean()

    def state_dict(self) -> dict[str, Any]:
        """What has to be kept to go on."""
        return self.tutor.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.tutor.load_state_dict(state)
        self.skipped = self.tutor.skipped_teacher_steps


ALGORITHMS = {"unroll": ManyRuns, "implicit": OneRun}


def build_teacher(settings: LearnSettings, examples: Data) -> nn.Module:
    """A fresh teacher to learn."""
    device = device_of(settings.study)
    with seeded(mixed_seed(settings.seed, 1)):
        if settings.teacher == "blending":
            teacher: nn.Module = Blending(len(examples.classes))
        elif settings.teacher == "mask":
            assert isinstance(examples, ImageSet)
            channels, height = examples.images.shape[1:3]
            sigma = settings.sigma or height / 4
            teacher = AttentionMask(MaskUNet(channels, width=8, levels=1), sigma=sigma)
        else:
            student, _ = fresh_student(settings, examples, 0)
            teacher = TAUGHT[settings.teacher].build(student, examples, settings.study)
    return teacher.to(device)


def fresh_student(
    settings: LearnSettings, examples: Data, number: int
) -> tuple[nn.Module, Optimizer]:
    """The student of an episode and its optimiser."""
    seed = mixed_seed(settings.seed, 0, number)
    student = new_student(settings.study, examples, seed).to(device_of(settings.study))
    optimizer = {"adam": Adam, "sgd": SGD}[settings.optimizer]
    return student, optimizer(student.parameters(), lr=settings.lr)


def _batches_from(batches: SeededBatches, start: int) -> Iterator[Batch]:
    # epoch after epoch, from a batch of that number on
    epoch, place = divmod(start, len(batches))
    later = chain.from_iterable(map(batches.epoch, count(epoch + 1)))
    return chain(batches.epoch(epoch, place), later)
