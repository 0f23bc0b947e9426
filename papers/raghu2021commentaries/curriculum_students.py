"""Students under a curriculum that was learned through students before: data and measures."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count, islice
from statistics import fmean
from typing import NamedTuple

import torch
from torch import nn
from torch.optim import Adam

from papers.framework.recipe import Outcome, Plot
from papers.new_students import cropped_and_mirrored
from papers.raghu2021commentaries.learned_curriculum import Course, learned
from tutelage.models import TwoBlockCNN, build_student
from tutelage.models.catalogue import require_student
from tutelage.models.cifar_resnet import CifarResNet
from tutelage.randomness import mixed_seed, seeded
from tutelage.teachers import Curriculum, Plain
from tutelage.teachers.curriculum import Beyond
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, Progress, as_lesson
from tutelage.validation.ranges import at_least_one, not_negative
from tutelage_cli.claims import Claim, Comparison
from tutelage_cli.data.batches import Batches, statistics
from tutelage_cli.data.images import ImageSet, Splits
from tutelage_cli.data.local import load_known
from tutelage_cli.data.splits import balanced_rows

ARMS = ("none", "curriculum", "clipped", "non-curriculum")
"""no weights; weights by image and iteration; the same with the iteration clipped at the N that
they were learned through; weights by image"""
BEYOND: dict[str, Beyond] = {"curriculum": "paper", "clipped": "safe", "non-curriculum": "safe"}
PLACES = ("cnn", "resnet", "deeper")
"""what a student is for: the network that weights were learned with, a ResNet, a deeper one"""
SAID = ("two-block CNN", "ResNet", "deeper ResNet")
SLIM = {"resnet8-slim": (8, 8), "resnet14-slim": (14, 4)}
"""depth and width of the ResNets that stand in at small scales"""
PAPER = Course(1500, 8, 1e-4, 100)
"""how weights are learned"""
METRICS = {
    f"{what}_{place}": f"{said}, {student}, %"
    for place, student in zip(PLACES, SAID, strict=True)
    for what, said in (
        ("area", "mean test accuracy along the training"),
        ("final", "test accuracy at its end"),
    )
} | {
    "weight": "mean weight of test images at the last step that it was learned through",
    "spread": "standard deviation of these weights",
}


class Pupil(NamedTuple):
    """A student that is taught by what others have left."""

    name: str
    """see ``tutelage.models.STUDENTS``, or ``SLIM``"""
    steps: int = 25_000


@dataclass(frozen=True)
class Settings:
    """What decides a job; the defaults are the paper's, or ours where it says nothing."""

    data: str = "cifar10"
    course: Course = PAPER
    train: int = 40_000
    """images, to learn weights with"""
    held_out: int = 10_000
    """images that judge them, and join those of ``train`` for the pupils"""
    tested: int = 10_000
    """test images"""
    pupils: tuple[Pupil, ...] = (
        Pupil("cnn"),
        Pupil("resnet18-cifar"),
        Pupil("resnet34-cifar"),
    )
    """one for each of ``PLACES``"""
    batch: int = 64
    lr: float = 1e-4
    """of a pupil's Adam"""
    looks: int = 128
    """at the test accuracy, evenly along a pupil's training; the last at its end"""

    def __post_init__(self) -> None:
        """Check what can be checked without the data; ``UsageError`` where a value is wrong."""
        at_least_one(self, "train", "held_out", "tested", "batch", "looks")
        not_negative(self, "lr")
        for pupil in self.pupils:
            at_least_one(pupil, "steps")
            if pupil.name not in SLIM:
                require_student(pupil.name)


class _Parts(NamedTuple):
    # of one seed, as they are
    train: Batches
    held_out: Batches
    both: Batches
    test: Batches


@cache
def splits(name: str) -> Splits:
    """A data set, read once in each process."""
    return load_known(name)


def _parts(of: Settings, seed: int, device: torch.device) -> _Parts:
    whole = splits(of.data).train
    classes = len(whole.classes)
    judging, others = balanced_rows(
        whole.labels, of.held_out, classes, seed=mixed_seed(seed, 0)
    )
    left = whole.labels[others]
    kept = others[balanced_rows(left, of.train, classes, seed=mixed_seed(seed, 1))[0]]
    train, test = whole.rows(kept), splits(of.data).test.rows(torch.arange(of.tested))
    mean, std = statistics(train)

    def batches(images: ImageSet, size: int) -> Batches:
        return Batches(images, size, mixed_seed(seed, 2), mean, std, None, device)

    return _Parts(
        batches(train, of.course.batch),
        batches(whole.rows(judging), of.held_out),
        batches(whole.rows(torch.cat([kept, judging])), of.batch),
        batches(test, 500),
    )


@cache
def _commentary(
    of: Settings, seed: int, device: torch.device, *, iteration: bool
) -> tuple[nn.Module, tuple[float, ...]]:
    # a network that has learned, and the held-out losses meanwhile; once in each process
    parts = _parts(of, seed, device)
    channels, size = parts.train.images.images.shape[1:3]
    with seeded(mixed_seed(seed, 3), torch.device("cpu")):
        network = TwoBlockCNN(channels + iteration, 1, size).to(device)
    teacher = Curriculum(network, iteration=iteration)
    judge = next(parts.held_out.whole(of.held_out))
    losses = tuple(
        float(e.held_out_loss) for e in learned(teacher, of.course, parts.train, judge)
    )
    return network.requires_grad_(False), losses


def _student(name: str, images: ImageSet, seed: int) -> nn.Module:
    classes, (channels, size) = len(images.classes), images.images.shape[1:3]
    if name in SLIM:
        depth, width = SLIM[name]
        with seeded(seed, torch.device("cpu")):
            return CifarResNet(depth, classes, channels, width)
    return build_student(name, classes=classes, channels=channels, size=size, seed=seed)


def _curve(
    pupil: Pupil, teacher: nn.Module, of: Settings, parts: _Parts, seed: int
) -> Iterator[float]:
    # test accuracies along one pupil's training, %
    student = _student(pupil.name, parts.both.images, mixed_seed(seed, 4)).to(parts.both.device)
    rule = Adam(student.parameters(), of.lr)
    tutor = Tutor(student, rule, teacher, total_steps=of.course.steps, seed=mixed_seed(seed, 5))
    training = replace(parts.both, augment=cropped_and_mirrored, seed=mixed_seed(seed, 6))
    due = {round(pupil.steps * (look + 1) / of.looks) for look in range(of.looks)}
    for step, batch in enumerate(islice(_endless(training), pupil.steps), start=1):
        tutor.step(batch)
        if step in due:
            yield _accuracy(student, parts.test)
            student.train()


def _endless(training: Batches) -> Iterator[Batch]:
    for epoch in count():
        yield from training.epoch(epoch)


@torch.no_grad()
def _accuracy(student: nn.Module, test: Batches) -> float:
    student.eval()
    right = [student(b.inputs).argmax(1) == b.targets for b in test.whole(test.size)]
    return 100 * float(torch.cat(right).float().mean())


def taught(arm: str, seed: int, of: Settings, device: torch.device) -> Outcome:
    """Train new students under one kind of weights, learned first where they are."""
    parts, losses, teacher = _parts(of, seed, device), (), Plain()
    if arm in BEYOND:
        iteration = arm != "non-curriculum"
        network, losses = _commentary(of, seed, device, iteration=iteration)
        teacher = Curriculum(network, iteration=iteration, beyond=BEYOND[arm])
    curves = {
        place: list(_curve(pupil, teacher, of, parts, mixed_seed(seed, 7, number)))
        for number, (place, pupil) in enumerate(zip(PLACES, of.pupils, strict=True))
    }
    areas = {f"area_{place}": fmean(curve) for place, curve in curves.items()}
    ends = {f"final_{place}": curve[-1] for place, curve in curves.items()}
    weighed = _weighed(teacher, parts.test, 1 - 1 / of.course.steps)
    return Outcome(areas | ends | weighed, curves | {"held-out loss": losses})


@torch.no_grad()
def _weighed(teacher: nn.Module, test: Batches, when: float) -> dict[str, float]:
    if not isinstance(teacher, Curriculum):
        return {"weight": 1.0, "spread": 0.0}
    none = torch.zeros(0)
    seen = Observation(none, none, {}, Progress(when))
    weights = torch.cat([teacher.weigh(as_lesson(b), seen) for b in test.whole(test.size)])
    return {"weight": float(weights.mean()), "spread": float(weights.std())}


def better(place: str, than: str, what: str) -> Comparison:
    """That a student does better under the curriculum than in another arm."""
    name = f"{what}_{place}"
    return Comparison(("curriculum", name), "above", (than, name))


def better_areas() -> tuple[Claim, ...]:
    """What Figures 2 and 3 say, of the network that weights were learned with and of others."""
    return (
        Claim(
            "A two-block CNN has the larger area under its test accuracy with the curriculum "
            "than with no weights.",
            (better("cnn", "none", "area"),),
        ),
        Claim(
            "Its area is larger than with weights blind to the iteration.",
            (better("cnn", "non-curriculum", "area"),),
        ),
        Claim(
            "Both are so for ResNets, which the curriculum was not learned with.",
            tuple(
                better(place, than, "area")
                for place in PLACES[1:]
                for than in ("none", "non-curriculum")
            ),
        ),
    )


def plots() -> tuple[Plot, ...]:
    """Curves of all arms for each student, and of the learning."""
    return (
        *(
            Plot(f"Test accuracy, {said}", "%", {a: (a, place) for a in ARMS}, "look")
            for place, said in zip(PLACES, SAID, strict=True)
        ),
        Plot(
            "Held-out loss while weights are learned",
            "nats",
            {a: (a, "held-out loss") for a in ("curriculum", "non-curriculum")},
            "student",
        ),
    )
