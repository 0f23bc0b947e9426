"""Learning a curriculum by algorithm 1, for the recipes that look at one or teach with one."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from torch import nn
from torch.optim import Adam

from tutelage.models import build_student
from tutelage.randomness import mixed_seed
from tutelage.signals import Unrolled
from tutelage.teachers import Curriculum
from tutelage.training.loops import Episode, episodic
from tutelage.types import Batch
from tutelage.validation.ranges import at_least_one, not_negative
from tutelage_cli.data.batches import Batches


@dataclass(frozen=True)
class Course:
    """How a curriculum is learned; the defaults are the paper's for rotated digits."""

    steps: int = 500
    """of each student that it is learned through"""
    batch: int = 10
    lr: float = 1e-4
    """of the student's Adam"""
    teacher_steps: int = 20
    """students to learn through, one after the other"""
    new_start: bool = True
    """whether each student has an initialisation of its own"""
    teacher_lr: float = 1e-3
    """of the curriculum's Adam"""

    def __post_init__(self) -> None:
        """Check what can be checked without the data; ``UsageError`` where a value is wrong."""
        at_least_one(self, "steps", "batch", "teacher_steps")
        not_negative(self, "lr", "teacher_lr")


def learned(
    curriculum: Curriculum, course: Course, training: Batches, judge: Batch
) -> Iterator[Episode]:
    """Teach a curriculum through whole training runs of two-block CNNs."""
    images, device = training.images, training.device
    channels, size = images.images.shape[1:3]

    def student(number: int) -> tuple[nn.Module, Adam]:
        drawn = mixed_seed(training.seed, 0, number if course.new_start else 0)
        classes = len(images.classes)
        made = build_student("cnn", classes=classes, channels=channels, size=size, seed=drawn)
        made.to(device)
        return made, Adam(made.parameters(), course.lr)

    episodes = episodic(
        student,
        curriculum,
        Adam(curriculum.parameters(), course.teacher_lr),
        lambda n: map(training.draw, range(n * course.steps, (n + 1) * course.steps)),
        lambda _number: judge,
        signal=Unrolled(course.steps),
        seed=mixed_seed(training.seed, 4),
    )
    yield from islice(episodes, course.teacher_steps)
