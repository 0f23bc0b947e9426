"""Several copies of each image, weighted equally or by loss: two data sets, four ResNets.

Yi et al. 2021, Tables 1 and 2. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import MultiStepLR

from papers.framework.recipe import Outcome, Recipe, above, below, expectation
from papers.framework.settings import CountOrZero, Positive, RecipeSettings, Shares, Student
from papers.students import accuracy, build_network, fit, limited, predictions, splits
from tutelage.augment import crop_and_flip
from tutelage.randomness import mixed_seed
from tutelage.teachers import CombinedTeacher, Copies, UniformCopies, WorstCase, WorstCaseSoft
from tutelage.teachers.worst_case import require_positive
from tutelage.training.tutor import Tutor
from tutelage_cli.claims import Claim
from tutelage_cli.data.batches import Batches, CollateImages, statistics

METRICS = {
    "accuracy": "test accuracy at the end of training, %",
    "loss": "test loss at the end of training, nats",
    "fitted": "accuracy on the training images without augmentation, at the end of training, %",
}


Temperature = Annotated[float, lambda s, name: require_positive(name, getattr(s, name))]
"""above 0; infinity: equal weights"""


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's for CIFAR-10 and ResNet-20."""

    data: str = "cifar10"
    student: Student = "resnet20"
    examples: int | None = None  # training images, class balanced; None: all
    tested: int | None = None  # test images, class balanced; None: all
    copies: int = 10  # rows of every image, the image itself included
    offline: bool = False  # whether an image has the same copies in every epoch
    pad: CountOrZero = 4  # black pixels on every side before cropping
    flip: bool = True
    temperature: Temperature = 1.0  # lambda_P
    weight: Positive = 1.0  # lambda_T, of the soft loss
    batch: int = 128  # images, each with its copies
    epochs: int = 200
    lr: float = 0.1
    decay_at: Shares = (0.3, 0.6, 0.8)
    """shares of the run after which the learning rate is multiplied by ``decay``"""
    decay: float = 0.2
    weight_decay: float = 5e-4


class Method(NamedTuple):
    """How the copies of an image enter the loss."""

    loss: str  # ``uniform``, ``hard`` or ``soft``
    copies: int | None = None
    """rows of an image; None: those of the settings; 1: one augmented copy"""
    longer: bool = False  # whether epochs are multiplied by the copies of the settings
    times: int = 1  # epochs are multiplied by it, too
    temperature: float | None = None  # None: that of the settings


BASELINE = Method("uniform", 1)  # one augmented copy of every image (DA)


class Normalised(nn.Module):
    """A student whose inputs are images in 0..1, which it normalises first."""

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
    methods: Mapping[str, Method], arm: str, seed: int, settings: Settings, device: torch.device
) -> Outcome:
    """Train the student of one arm and seed on copies."""
    method = methods[arm]
    train = limited(splits(settings.data).train, settings.examples, mixed_seed(seed, 0))
    test = limited(splits(settings.data).test, settings.tested, mixed_seed(seed, 0))
    network = build_network(settings.student, train, mixed_seed(seed, 1))
    student = Normalised(network, *statistics(train)).to(device)
    optimizer = SGD(
        student.parameters(), settings.lr, momentum=0.9, weight_decay=settings.weight_decay
    )
    epochs = settings.epochs * method.times * (settings.copies if method.longer else 1)
    schedule = MultiStepLR(
        optimizer, [int(share * epochs) for share in settings.decay_at], settings.decay
    )
    tutor = Tutor(student, optimizer, teacher_of(method, settings), seed=mixed_seed(seed, 3))
    channels = train.images.shape[1]
    collate = CollateImages(torch.zeros(channels), torch.ones(channels))  # stay in 0..1
    batches, testing = (
        Batches(part, settings.batch, mixed_seed(seed, 2), collate, device)
        for part in (train, test)
    )
    fit(tutor, batches, epochs, schedule)
    logits, labels = predictions(student, testing.whole(500))
    return Outcome({
        "accuracy": accuracy(logits, labels),
        "loss": float(F.cross_entropy(logits, labels)),
        "fitted": accuracy(*predictions(student, batches.whole(500))),
    })


def teacher_of(method: Method, settings: Settings) -> nn.Module:
    """The teacher of a method: makes copies and weights them."""
    augment = partial(crop_and_flip, pad=settings.pad, mode="zeros", flip=settings.flip)
    k = method.copies or settings.copies
    copies = Copies(k, augment, include_original=k > 1, offline=settings.offline)
    temperature = method.temperature or settings.temperature
    return CombinedTeacher(copies, weigher(method.loss, temperature, settings.weight))


def weigher(loss: str, temperature: float, weight: float, **soft: Any) -> nn.Module:
    """The teacher that weights the copies of an example.

    Args:
        loss: ``uniform``, ``hard`` or ``soft``.
        temperature: lambda_P.
        weight: lambda_T, of the soft loss.
        soft: Further arguments of ``WorstCaseSoft``.
    """
    if loss == "soft":
        return WorstCaseSoft(temperature, weight, **soft)
    return WorstCase(temperature) if loss == "hard" else UniformCopies()


METHODS: Mapping[str, Method] = {
    "one": BASELINE,
    "long": Method("uniform", 1, longer=True),
    "uniform": Method("uniform"),
    "hard": Method("hard"),
    "soft": Method("soft"),
}
COLUMNS = {
    "one": "Baseline(DA) acc",
    "long": "Baseline(DA+Long) acc",
    "uniform": "Baseline(DA+UNI) acc",
    "hard": "MMEL-H acc",
    "soft": "MMEL-S acc",
}
SETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
DIGITS = Settings(
    data="mnist", student="cnn", examples=1000, copies=4, flip=False, batch=50, epochs=20
)
"""a student that overfits within minutes"""
SMOKE = replace(DIGITS, examples=20, tested=20, epochs=1, batch=10)


def table1(data: str, depth: int) -> Recipe:
    """The recipe of the table's row for one data set and one ResNet."""
    row = f"{SETS[data]} / ResNet{depth}"
    base = "mmel-" + {"cifar10": "cifar"}.get(data, data)
    paper = Settings(data=data, student=f"resnet{depth}")
    mini = replace(DIGITS, data=data, examples=4000, flip=True, lr=0.02)
    if row == "CIFAR-10 / ResNet20":
        mini = DIGITS
    return Recipe(
        name=base if depth == 20 else f"{base}-resnet{depth}",
        title="Augmented copies of images raise accuracy, most if weighted by their losses.",
        paper="mmel",
        where=f"Table 1, {row}",
        arms=tuple(METHODS),
        metrics=METRICS,
        settings={
            "smoke": SMOKE,
            "mini": mini,
            "gpu": replace(paper, copies=5, epochs=30),
            "paper": paper,
        },
        minutes={"smoke": 0.2, "mini": 10, "gpu": 10, "paper": 45 * depth},
        run=partial(trained, METHODS),
        claims=(
            Claim(
                "Copies weighted by their losses, hard or soft, give a higher test accuracy "
                "than one copy.",
                above("accuracy", "hard", "one") + above("accuracy", "soft", "one"),
            ),
            Claim(
                "Copies with uniform weights give a higher test accuracy than one copy.",
                above("accuracy", "uniform", "one"),
            ),
            Claim(
                "Hard weights give a higher test accuracy than uniform weights.",
                above("accuracy", "hard", "uniform"),
            ),
            expectation(
                "Hard weights are less than half a point worse than uniform weights.",
                above("accuracy", "hard", "uniform", margin=-0.5),
            ),
        ),
        table="Table 1",
        printed={(arm, "accuracy"): (row, column) for arm, column in COLUMNS.items()},
        prepare=lambda settings: splits(settings.data),
    )


CIFAR10, CIFAR10_32, CIFAR10_44, CIFAR10_56 = (table1("cifar10", n) for n in (20, 32, 44, 56))
CIFAR100, CIFAR100_32, CIFAR100_44, CIFAR100_56 = (
    table1("cifar100", n) for n in (20, 32, 44, 56)
)

COUNTS = (2, 5, 10, 20)
LETTERS = {"hard": "H", "soft": "S"}
COUNTED: Mapping[str, Method] = {"one": BASELINE} | {
    f"{loss}-{n}": Method(loss, n) for n in COUNTS for loss in LETTERS
}
COUNTED_COLUMNS = {"one": "Baseline(DA)"} | {
    f"{loss}-{n}": f"MMEL-{letter}-{n}" for n in COUNTS for loss, letter in LETTERS.items()
}
TABLE2 = Recipe(
    name="mmel-copies",
    title="More copies of each image raise the test accuracy, with diminishing returns.",
    paper="mmel",
    where="Table 2, CIFAR-10 / ResNet20",
    arms=tuple(COUNTED),
    metrics=METRICS,
    settings={
        "smoke": SMOKE,
        "mini": DIGITS,
        "gpu": Settings(examples=10_000, epochs=20),
        "paper": Settings(),
    },
    minutes={"smoke": 0.2, "mini": 12, "gpu": 10, "paper": 1500},
    run=partial(trained, COUNTED),
    claims=(
        Claim(
            "Any number of copies, with hard or soft weights, gives a higher test accuracy "
            "than one copy.",
            tuple(
                c
                for loss in LETTERS
                for n in COUNTS
                for c in above("accuracy", f"{loss}-{n}", "one")
            ),
        ),
        Claim(
            "Ten copies give a higher test accuracy than two, with hard and with soft weights.",
            above("accuracy", "hard-10", "hard-2") + above("accuracy", "soft-10", "soft-2"),
        ),
        Claim(
            "With hard weights, ten copies gain more than half a point over one, and twenty "
            "less than half a point over ten.",
            above("accuracy", "hard-10", "one", margin=0.5)
            + above("accuracy", "hard-10", "hard-20", margin=-0.5),
        ),
    ),
    table="Table 2",
    printed={
        (arm, "accuracy"): ("CIFAR-10 / ResNet20", column)
        for arm, column in COUNTED_COLUMNS.items()
    },
    prepare=lambda settings: splits(settings.data),
)

LONG = 4
"""factor of the epochs, or of the temperature"""
ABLATED: Mapping[str, Method] = {
    "uniform": Method("uniform"),
    "hard": Method("hard"),
    "hard-softer": Method("hard", temperature=float(LONG)),
    "uniform-long": Method("uniform", times=LONG),
    "hard-long": Method("hard", times=LONG),
    "hard-2": Method("hard", 2),
    "hard-10": Method("hard", 10),
    "hard-2-long": Method("hard", 2, times=LONG),
    "hard-10-long": Method("hard", 10, times=LONG),
}
ABLATION = Recipe(
    name="mmel-ablation",
    title="Hard weights and many copies do worse here because training is too short.",
    paper="mmel",
    where="Tables 1 and 2; the ablation is ours",
    arms=tuple(ABLATED),
    metrics=METRICS,
    settings=TABLE2.settings,
    minutes={"smoke": 0.2, "mini": 15, "gpu": 10, "paper": 2000},
    run=partial(trained, ABLATED),
    claims=(
        expectation(
            "Training accuracy is lower with hard weights than with uniform ones, and, with "
            "hard weights, lower with ten copies than with two.",
            below("fitted", "hard", "uniform") + below("fitted", "hard-10", "hard-2"),
        ),
        expectation(
            "After four times the epochs, hard weights give a higher test accuracy than "
            "uniform weights.",
            above("accuracy", "hard-long", "uniform-long"),
        ),
        expectation(
            "After four times the epochs, ten copies give a higher test accuracy than two, "
            "with hard weights.",
            above("accuracy", "hard-10-long", "hard-2-long"),
        ),
        expectation(
            "At four times the temperature, hard weights give a higher test accuracy than at "
            "the usual one, and than uniform weights.",
            above("accuracy", "hard-softer", "hard", "uniform"),
        ),
    ),
    prepare=lambda settings: splits(settings.data),
)
