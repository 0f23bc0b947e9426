"""What decides a job about deep interactions, and the data that it names."""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

from torch import Tensor

from papers.framework.settings import RecipeSettings, Shares, Student
from tutelage.errors import UsageError
from tutelage.models.catalogue import Images
from tutelage.validation.ranges import factor
from tutelage_cli.data.noise import require_noise
from tutelage_cli.data.sources import read
from tutelage_cli.data.splits import limit_rows
from tutelage_cli.train.material import Material, Source, given_labels, seed_material
from tutelage_cli.train.settings import TrainSettings


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """What decides a job; the defaults are the paper's with labels flipped."""

    data: str = "cifar10"
    student: Student = "resnet32"
    examples: int | None = None
    """training images, class balanced, beside the held-out ones; None: all"""
    held_out: int = 1000
    tested: int | None = None
    """test images, class balanced; None: all"""
    noise: str = "flip2:0.4"
    imbalance: Annotated[float | None, factor] = None
    augment: Literal["none", "crop", "crop-flip"] = "crop-flip"
    batch: int = 100
    epochs: int = 60
    lr: float = 0.1
    weight_decay: float = 5e-4
    decay_at: Shares = (2 / 3, 5 / 6)
    """shares of the run after which the learning rate is divided by ten"""
    teacher_lr: float = 1e-3
    every: int = 20
    """student steps between two teacher steps"""
    look_back: int = 2
    """student steps that the teacher's gradient looks back over"""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_noise(self.noise, self.data)
        if self.look_back > self.every:
            raise UsageError(
                f"look_back is {self.look_back}, but there are only {self.every} student steps "
                f"between two teacher steps: give every {self.look_back} or more."
            )


@cache
def source(data: str, noise: str) -> Source:
    """The data, read once in each process."""
    splits = read(data)
    return Source(splits, given_labels(splits.train, TrainSettings(data=data, noise=noise)))


def train_settings_of(settings: Settings) -> TrainSettings:
    """The same settings as those of ``tutelage train``."""
    return TrainSettings(
        data=settings.data,
        student=settings.student,
        noise=settings.noise,
        imbalance=settings.imbalance,
        held_out=settings.held_out,
        limit=settings.examples,
        augment=settings.augment,
        epochs=settings.epochs,
        batch_size=settings.batch,
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        decay_at=settings.decay_at,
    )


def material_of(settings: Settings, seed: int) -> Material:
    """What the students of a seed are trained and tested on."""
    material = seed_material(
        source(settings.data, settings.noise), train_settings_of(settings), seed
    )
    test = material.test
    if settings.tested is None:
        return material
    rows: Tensor = limit_rows(test.labels, settings.tested, len(test.classes), seed=0)
    return Material(material.train, material.truth, material.held_out, test.rows(rows))


def shown(material: Material) -> Images:
    """What a student must be made for."""
    images = material.train.images
    return Images(len(material.train.classes), images.shape[1], images.shape[2])
