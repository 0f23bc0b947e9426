"""Students that see many copies of every image: data, schedule, and how copies count."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import MultiStepLR

from papers.framework.recipe import Outcome
from papers.framework.settings import CountOrZero, Positive, RecipeSettings, Shares, Student
from papers.students import accuracy, build_network, fit, limited, predictions, splits
from tutelage.augment import crop_and_flip
from tutelage.randomness import mixed_seed
from tutelage.teachers import Copies, Together, UniformCopies, WorstCase, WorstCaseSoft
from tutelage.teachers.worst_case import require_positive
from tutelage.training.tutor import Tutor
from tutelage_cli.data.batches import Batches, statistics

METRICS = {
    "accuracy": "test accuracy at the end, %",
    "loss": "test loss at the end, nats",
    "fitted": "accuracy on the training images as they are, at the end, %",
}


def _above_zero_or_infinite(settings: object, name: str) -> None:
    require_positive(name, getattr(settings, name))


Temperature = Annotated[float, _above_zero_or_infinite]
"""infinity weighs copies alike"""


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """What decides a job; the defaults are the paper's for CIFAR-10 and ResNet-20."""

    data: str = "cifar10"
    student: Student = "resnet20"
    examples: int | None = None
    """training images, class balanced; None: all"""
    tested: int | None = None
    """test images, class balanced; None: all"""
    copies: int = 10
    """rows of every image, itself among them"""
    offline: bool = False
    """whether an image has the same copies in every epoch"""
    pad: CountOrZero = 4
    """black pixels on every side before cropping"""
    flip: bool = True
    temperature: Temperature = 1.0
    """lambda_P"""
    weight: Positive = 1.0
    """lambda_T, of the soft loss"""
    batch: int = 128
    """images, each with its copies"""
    epochs: int = 200
    lr: float = 0.1
    decay_at: Shares = (0.3, 0.6, 0.8)
    """shares of the run after which the learning rate is multiplied"""
    decay: float = 0.2
    """by what"""
    weight_decay: float = 5e-4


class Way(NamedTuple):
    """How the copies of an image count."""

    loss: str
    """``uniform``, ``hard`` or ``soft``"""
    copies: int | None = None
    """rows of an image; the settings' where None; 1: one augmented copy, as ever"""
    longer: bool = False
    """as many times the epochs as the settings have copies"""


BASELINE = Way("uniform", 1)
"""one augmented copy of every image (DA)"""


class Normalised(nn.Module):
    """A student of images in 0..1."""

    def __init__(self, student: nn.Module, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.student = student
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", mean.view(-1, 1, 1))
        self.register_buffer("std", std.view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        return self.student((images - self.mean) / self.std)


def trained(
    ways: Mapping[str, Way], arm: str, seed: int, settings: Settings, device: torch.device
) -> Outcome:
    """Train one student on copies."""
    way = ways[arm]
    train = limited(splits(settings.data).train, settings.examples, mixed_seed(seed, 0))
    test = limited(splits(settings.data).test, settings.tested, mixed_seed(seed, 0))
    network = build_network(settings.student, train, mixed_seed(seed, 1))
    student = Normalised(network, *statistics(train)).to(device)
    rule = SGD(
        student.parameters(), settings.lr, momentum=0.9, weight_decay=settings.weight_decay
    )
    epochs = settings.epochs * (settings.copies if way.longer else 1)
    schedule = MultiStepLR(
        rule, [int(share * epochs) for share in settings.decay_at], settings.decay
    )
    tutor = Tutor(student, rule, teacher_of(way, settings), seed=mixed_seed(seed, 3))
    channels = train.images.shape[1]
    whole = torch.zeros(channels), torch.ones(channels)  # images stay in 0..1
    batches, testing = (
        Batches(part, settings.batch, mixed_seed(seed, 2), *whole, None, device)
        for part in (train, test)
    )
    fit(tutor, batches, epochs, schedule)
    logits, labels = predictions(student, testing.whole(500))
    return Outcome({
        "accuracy": accuracy(logits, labels),
        "loss": float(F.cross_entropy(logits, labels)),
        "fitted": accuracy(*predictions(student, batches.whole(500))),
    })


def teacher_of(way: Way, settings: Settings) -> nn.Module:
    """Makes copies and weighs them."""
    augment = partial(crop_and_flip, pad=settings.pad, mode="zeros", flip=settings.flip)
    k = way.copies or settings.copies
    copies = Copies(k, augment, include_original=k > 1, offline=settings.offline)
    return Together(copies, weigher(way, settings.temperature, settings.weight))


def weigher(way: Way, temperature: float, weight: float) -> nn.Module:
    """What weighs the copies of an image."""
    weighers = {
        "uniform": UniformCopies(),
        "hard": WorstCase(temperature),
        "soft": WorstCaseSoft(temperature, weight),
    }
    return weighers[way.loss]
