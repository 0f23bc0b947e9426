"""New students with a curriculum, without weights, and with weights that ignore the iteration.

Raghu et al. 2021, section 3.1, Figures 2 and 3: weights learned by algorithm 1 through whole
runs of a small network. Figures: ``docs/results.md``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from statistics import fmean
from typing import NamedTuple

import torch
from torch import nn
from torch.optim import Adam

from papers.framework.recipe import Outcome, Plot, Recipe, above, curves, expectation
from papers.framework.settings import RecipeSettings
from papers.students import (
    accuracy,
    augmented,
    balanced_indices,
    batches_of,
    build_network,
    endless,
    predictions,
    require_network,
    splits,
)
from tutelage.models import TwoBlockCNN, build_student
from tutelage.randomness import mixed_seed, seeded
from tutelage.signals import Unrolled
from tutelage.teachers import Curriculum, Plain
from tutelage.teachers.curriculum import Beyond
from tutelage.training.loops import Episode, episodic
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, Progress, as_prepared
from tutelage.validation.ranges import at_least_one
from tutelage_cli.claims import Claim
from tutelage_cli.data.batches import Batches


@dataclass(frozen=True)
class CurriculumSettings(RecipeSettings):
    """How a curriculum is learned; the defaults are the paper's for rotated digits."""

    steps: int = 500  # of each student, through which the curriculum is learned
    batch: int = 10
    lr: float = 1e-4  # of the student's Adam
    teacher_steps: int = 20  # students, one after the other
    new_start: bool = True  # whether each student has an initialisation of its own
    teacher_lr: float = 1e-3  # of the curriculum's Adam


def learned(
    curriculum: Curriculum, settings: CurriculumSettings, training: Batches, held_out: Batch
) -> Iterator[Episode]:
    """Learn a curriculum through whole training runs of two-block CNNs.

    Args:
        curriculum: The teacher.
        settings: Students and optimisers of the learning.
        training: Training batches.
        held_out: The batch of the held-out loss.
    """
    images, device = training.examples, training.device
    channels, size = images.images.shape[1:3]

    def new_student(number: int) -> tuple[nn.Module, Adam]:
        own_seed = mixed_seed(training.seed, 0, number if settings.new_start else 0)
        classes = len(images.classes)
        student = build_student(
            "cnn", classes=classes, channels=channels, size=size, seed=own_seed
        )
        student.to(device)
        return student, Adam(student.parameters(), settings.lr)

    episodes = episodic(
        new_student,
        curriculum,
        Adam(curriculum.parameters(), settings.teacher_lr),
        lambda n: map(training.draw, range(n * settings.steps, (n + 1) * settings.steps)),
        lambda _number: held_out,
        signal=Unrolled(settings.steps),
        seed=mixed_seed(training.seed, 4),
    )
    yield from islice(episodes, settings.teacher_steps)


ARMS = ("none", "curriculum", "clipped", "non-curriculum")
"""no weights; weights by image and iteration; the same with the iteration clipped to those
with which the weights were learned; weights by image"""
BEYOND: dict[str, Beyond] = {"curriculum": "paper", "clipped": "safe", "non-curriculum": "safe"}
PLACES = ("cnn", "resnet", "deeper")
"""students in the names of metrics: the network with which weights were learned, a ResNet, a
deeper one"""
STUDENT_NAMES = ("two-block CNN", "ResNet", "deeper ResNet")
PAPER = CurriculumSettings(1500, 8, 1e-4, 100)  # how weights are learned
METRICS = {
    f"{what}_{place}": f"{said}, {student}, %"
    for place, student in zip(PLACES, STUDENT_NAMES, strict=True)
    for what, said in (
        ("area", "mean test accuracy during training"),
        ("final", "test accuracy at the end of training"),
    )
} | {
    "weight": "mean weight of test images at the last iteration with which the weights were "
    "learned",
    "spread": "standard deviation of these weights",
}


class StudentSettings(NamedTuple):
    """A student that is trained with weights learned through other students."""

    name: str  # see ``tutelage.models.STUDENTS``, or ``papers.students.SLIM``
    steps: int = 25_000


RESNETS = ("cnn", "resnet18-cifar", "resnet34-cifar")
SLIM = ("cnn", "resnet8-slim", "resnet14-slim")


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's, or ours where it gives none."""

    data: str = "cifar10"
    curriculum: CurriculumSettings = PAPER
    train: int = 40_000  # images on which weights are learned
    held_out: int = 10_000  # images of the held-out loss; new students are trained on them, too
    tested: int = 10_000  # test images
    students: tuple[StudentSettings, ...] = tuple(map(StudentSettings, RESNETS))
    """one for each of ``PLACES``"""
    batch: int = 64
    lr: float = 1e-4  # of a new student's Adam
    looks: int = 128
    """evaluations of the test accuracy at equal intervals, the last at the end of training"""

    def __post_init__(self) -> None:
        super().__post_init__()
        for network in self.students:
            at_least_one(network, "steps")
            require_network(network.name)


class _Parts(NamedTuple):
    # batches of one seed, not augmented
    train: Batches
    held_out: Batches
    both: Batches
    test: Batches


def _parts(settings: Settings, seed: int, device: torch.device) -> _Parts:
    whole = splits(settings.data).train
    train, held_out = balanced_indices(whole, settings.train, settings.held_out, seed)
    images = [whole.rows(rows) for rows in (train, held_out, torch.cat([train, held_out]))]
    images.append(splits(settings.data).test.rows(torch.arange(settings.tested)))
    sizes = settings.curriculum.batch, settings.held_out, settings.batch, 500
    return _Parts(*batches_of(images, sizes, mixed_seed(seed, 2), device))


@cache
def _commentary(
    settings: Settings, seed: int, device: torch.device, *, iteration: bool
) -> tuple[nn.Module, tuple[float, ...]]:
    # the learned network and the held-out loss of each student; once in each process
    parts = _parts(settings, seed, device)
    channels, size = parts.train.examples.images.shape[1:3]
    with seeded(mixed_seed(seed, 3)):
        network = TwoBlockCNN(channels + iteration, 1, size).to(device)
    teacher = Curriculum(network, iteration=iteration)
    held_out = next(parts.held_out.whole(settings.held_out))
    episodes = learned(teacher, settings.curriculum, parts.train, held_out)
    losses = tuple(float(episode.held_out_loss) for episode in episodes)
    return network.requires_grad_(False), losses


def _curve(
    network: StudentSettings, teacher: nn.Module, settings: Settings, parts: _Parts, seed: int
) -> Iterator[float]:
    # test accuracy of one network at each evaluation, %
    student = build_network(network.name, parts.both.examples, mixed_seed(seed, 4))
    student = student.to(parts.both.device)
    optimizer = Adam(student.parameters(), settings.lr)
    tutor = Tutor(
        student,
        optimizer,
        teacher,
        total_steps=settings.curriculum.steps,
        seed=mixed_seed(seed, 5),
    )
    training = augmented(replace(parts.both, seed=mixed_seed(seed, 6)))
    count = settings.looks
    due = {round(network.steps * (n + 1) / count) for n in range(count)}
    for step, batch in enumerate(islice(endless(training), network.steps), start=1):
        tutor.step(batch)
        if step in due:
            yield accuracy(*predictions(student, parts.test.whole(parts.test.size)))
            student.train()


def taught(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train the new students of one arm; learned weights are learned first."""
    parts, losses, teacher = _parts(settings, seed, device), (), Plain()
    if arm in BEYOND:
        iteration = arm != "non-curriculum"
        network, losses = _commentary(settings, seed, device, iteration=iteration)
        teacher = Curriculum(network, iteration=iteration, beyond=BEYOND[arm])
    curves = {
        place: list(_curve(network, teacher, settings, parts, mixed_seed(seed, 7, number)))
        for number, (place, network) in enumerate(zip(PLACES, settings.students, strict=True))
    }
    areas = {f"area_{place}": fmean(curve) for place, curve in curves.items()}
    ends = {f"final_{place}": curve[-1] for place, curve in curves.items()}
    weights = _weight_statistics(teacher, parts.test, 1 - 1 / settings.curriculum.steps)
    return Outcome(areas | ends | weights, curves | {"held-out loss": losses})


@torch.no_grad()
def _weight_statistics(teacher: nn.Module, test: Batches, fraction: float) -> dict[str, float]:
    if not isinstance(teacher, Curriculum):
        return {"weight": 1.0, "spread": 0.0}
    unused = torch.zeros(0)
    observation = Observation(unused, unused, {}, Progress(fraction))
    weights = torch.cat([
        teacher.weigh(as_prepared(b), observation) for b in test.whole(test.size)
    ])
    return {"weight": float(weights.mean()), "spread": float(weights.std())}


def better_areas() -> tuple[Claim, ...]:
    """The claims of Figures 2 and 3, for the network of the learned weights and for others."""
    return (
        Claim(
            "With the curriculum, the two-block CNN has a larger area under its test accuracy "
            "curve than without weights.",
            above("area_cnn", "curriculum", "none"),
        ),
        Claim(
            "With the curriculum, the two-block CNN has a larger area than with weights that "
            "ignore the iteration.",
            above("area_cnn", "curriculum", "non-curriculum"),
        ),
        Claim(
            "With the curriculum, the two ResNets, which were not used to learn it, also have "
            "larger areas than without weights, and than with weights that ignore the "
            "iteration.",
            above("area_resnet", "curriculum", "none", "non-curriculum")
            + above("area_deeper", "curriculum", "none", "non-curriculum"),
        ),
    )


def plots() -> tuple[Plot, ...]:
    """Test accuracy of all arms for each student, and the held-out loss during learning."""
    title, arms = "Held-out loss while weights are learned", ("curriculum", "non-curriculum")
    return (
        *(
            curves(f"Test accuracy, {student}", "%", ARMS, place, "evaluation")
            for place, student in zip(PLACES, STUDENT_NAMES, strict=True)
        ),
        curves(title, "nats", arms, "held-out loss", "student"),
    )


SMOKE = Settings(
    "cifar10",
    CurriculumSettings(2, 8, 1e-3, 2),
    *(20, 20, 40),
    (StudentSettings("cnn", 2), StudentSettings("cnn", 2), StudentSettings("resnet8-slim", 2)),
    8,
    1e-3,
    2,
)
MINI = Settings(
    "cifar10",
    CurriculumSettings(100, 16, 1e-4, 20, new_start=False),
    *(4000, 1000, 1000),
    tuple(map(StudentSettings, SLIM, (600, 150, 75))),
    64,
    1e-4,
    10,
)
LONGER = replace(MINI, students=tuple(map(StudentSettings, SLIM, (600, 2000, 2000))))
"""ResNets of mini end at 10% and 16% test accuracy, little above chance"""
GPU = Settings(
    "cifar10",
    CurriculumSettings(300, 8, 1e-4, 12),
    *(40_000, 10_000, 5000),
    tuple(map(StudentSettings, RESNETS, (2000, 500, 250))),
    64,
    1e-4,
    10,
)
CIFAR10 = Recipe(
    name="commentaries-curriculum-cifar",
    title="A learned curriculum raises the test accuracy of new students during training.",
    paper="commentaries",
    where="Figures 2 and 3, CIFAR-10",
    arms=ARMS,
    metrics=METRICS,
    settings={"smoke": SMOKE, "mini": MINI, "hours": LONGER, "gpu": GPU, "paper": Settings()},
    minutes={"smoke": 0.5, "mini": 7, "gpu": 10, "paper": 360},
    run=taught,
    claims=(
        *better_areas(),
        expectation(
            "With the curriculum, the final test accuracy of the two-block CNN is also higher "
            "than without weights, and than with weights that ignore the iteration.",
            above("final_cnn", "curriculum", "none", "non-curriculum"),
        ),
    ),
    plots=plots(),
    prepare=lambda settings: splits(settings.data),
)

SETTINGS = {
    scale: replace(settings, data="cifar100") for scale, settings in CIFAR10.settings.items()
}
CIFAR100 = replace(
    CIFAR10,
    name="commentaries-curriculum-cifar100",
    title="A learned curriculum raises the test accuracy during training on CIFAR-100.",
    where="Figures 2 and 3, CIFAR-100",
    settings=SETTINGS | {"smoke": replace(SETTINGS["smoke"], train=100, held_out=100)},
    claims=better_areas(),
)
