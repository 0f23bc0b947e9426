"""Blending fractions of digits: larger for classes with a low test error.

Raghu et al. 2021, section 4 and Figure 4: a blending fraction for every pair of classes,
learned by algorithm 1 through whole student runs. Figures: ``docs/results.md``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

from papers.framework.drawings import grid
from papers.framework.recipe import (
    Outcome,
    Panel,
    Plot,
    Recipe,
    above,
    below,
    curves,
    expectation,
)
from papers.framework.settings import RecipeSettings
from papers.students import batches_of, correlation
from tutelage.models import build_student
from tutelage.randomness import mixed_seed
from tutelage.signals import Replayed
from tutelage.teachers import Blending
from tutelage.training.loops import episodic
from tutelage.training.tutor import Tutor
from tutelage.types import Batch
from tutelage_cli.claims import Claim
from tutelage_cli.data.batches import Batches
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.local import load_known
from tutelage_cli.data.splits import balanced_rows

ARMS = ("drawn", "balanced")
CLASSES = 10
TRACKED = ("digit 1", "other digits")
DIGIT_ORDER = [*range(1, CLASSES), 0]
"""digits in the order of the figure's horizontal axis, 1 to 9 and then 0"""

PRINTED = "MNIST blending", "Pearson(error rate of class i, mean_j 0.5*sigmoid(phi_ij))"


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's, or ours where it gives none."""

    steps: int = 500  # of each student, through which the fractions are learned
    batch: int = 8
    lr: float = 8e-3  # of SGD on a batch's mean loss
    teacher_steps: int = 50  # students, one after the other
    teacher_lr: float = 0.1  # of Adam on the fractions' logits
    train: int = 50_000  # images
    held_out: int = 10_000  # images
    tested: int = 10_000  # test images
    judges: int = 5  # new students whose test errors are measured
    judge_steps: int = 500  # of each of these


@dataclass(frozen=True)
class _Students:
    # students by number, and their batches
    settings: Settings
    seed: int
    training: Batches
    device: torch.device

    def make(self, number: int) -> tuple[nn.Module, SGD]:
        own_seed = mixed_seed(self.seed, 0, number)
        student = build_student("cnn", classes=CLASSES, channels=1, size=28, seed=own_seed)
        student.to(self.device)
        return student, SGD(student.parameters(), self.settings.lr)

    def batches(self, number: int, steps: int) -> Iterator[Batch]:
        return map(self.training.draw, range(number * steps, (number + 1) * steps))

    def errors(self, blending: Blending, test: Batches) -> Tensor:
        # test error of each class [C], mean over new students
        steps, errors = self.settings.judge_steps, []
        for number in range(self.settings.judges):
            student, optimizer = self.make(-1 - number)
            tutor = Tutor(student, optimizer, blending, seed=mixed_seed(self.seed, 1, number))
            for batch in self.batches(self.settings.teacher_steps + number, steps):
                tutor.step(batch)
            errors.append(_errors(student, test))
        return torch.stack(errors).mean(0)


@torch.no_grad()
def _errors(student: nn.Module, test: Batches) -> Tensor:
    # batch norm in training mode, as when the fractions were learned
    wrong, total = torch.zeros(CLASSES), torch.zeros(CLASSES)
    for batch in test.whole(500):
        labels = batch.targets.cpu()
        is_wrong = (student(batch.inputs).argmax(1).cpu() != labels).float()
        wrong += torch.bincount(labels, is_wrong, CLASSES)
        total += torch.bincount(labels, minlength=CLASSES)
    return wrong / total.clamp(min=1)


def _parts(arm: str, settings: Settings, seed: int) -> tuple[ImageSet, ImageSet]:
    # train and held-out part: random rows, or balanced over classes
    source = load_known("mnist").train
    if arm == "drawn":
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randperm(len(source), generator=generator)[
            : settings.train + settings.held_out
        ]
        return source.rows(rows[: settings.train]), source.rows(rows[settings.train :])
    chosen, rest = balanced_rows(source.labels, settings.train, CLASSES, seed=seed)
    others = source.rows(rest)
    judging, _ = balanced_rows(others.labels, settings.held_out, CLASSES, seed=seed)
    return source.rows(chosen), others.rows(judging)


def _fractions(blending: Blending) -> Tensor:
    # how much of others is mixed into each class, mean_{j != i} sigma(phi_ij) / 2
    shares = 1 - blending.shares.detach().cpu()
    return (shares.sum(1) - shares.diagonal()) / (len(shares) - 1)


def _learned(
    students: _Students, blending: Blending, held_out: Batch
) -> dict[str, list[float]]:
    # held-out loss of each student, and the fractions after it
    settings = students.settings
    series = {name: [] for name in ("held-out loss", *TRACKED)}
    episodes = episodic(
        students.make,
        blending,
        Adam(blending.parameters(), settings.teacher_lr),
        lambda number: students.batches(number, settings.steps),
        lambda _number: held_out,
        signal=Replayed(settings.steps),
        seed=mixed_seed(students.seed, 4),
    )
    for episode in islice(episodes, settings.teacher_steps):
        fractions = _fractions(blending)
        series["held-out loss"].append(float(episode.held_out_loss))
        series["digit 1"].append(float(fractions[1]))
        series["other digits"].append(float(fractions.sum() - fractions[1]) / (CLASSES - 1))
    return series


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Learn fractions, and measure the test errors of new students trained with them."""
    train, held_out = _parts(arm, settings, mixed_seed(seed, 2))
    test = load_known("mnist").test.rows(torch.arange(settings.tested))
    sizes = settings.batch, len(held_out), 500
    training, judging, testing = batches_of(
        (train, held_out, test), sizes, mixed_seed(seed, 3), device
    )
    students, blending = _Students(settings, seed, training, device), Blending(CLASSES)
    series = _learned(students, blending.to(device), next(judging.whole(len(held_out))))
    errors, fractions = students.errors(blending, testing), _fractions(blending)
    others = [0, *range(2, CLASSES)]
    rest = fractions[others]
    metrics = {
        "correlation": correlation(errors, fractions),
        "correlation_without_1": correlation(errors[others], rest),
        "digit_1": float(fractions[1]),
        "most_of_others": float(rest.max()),
        "mean_of_others": float(rest.mean()),
        "test_error": 100 * float(errors.mean()),
    }
    by_digit = {
        "error": (100 * errors)[DIGIT_ORDER].tolist(),
        "fraction": fractions[DIGIT_ORDER].tolist(),
    }
    drawing = grid(
        [str(digit) for digit in range(CLASSES)],
        1 - blending.shares.detach().cpu(),
        label="blending fraction",
        rows="digit",
        columns="partner",
    )
    return Outcome(metrics, series | by_digit, {"grid": drawing})


DIGITS = "digit (10: the digit 0)"
RECIPE = Recipe(
    name="commentaries-blending-mnist",
    title="Digits with a lower test error are blended more, the digit 1 most.",
    paper="commentaries",
    where="Section 4 and Figure 4",
    arms=ARMS,
    metrics={
        "correlation": "Pearson correlation of test error and blending fraction over the ten "
        "classes",
        "correlation_without_1": "the same over the nine other digits",
        "digit_1": "blending fraction of the digit 1, mean over partners; 0.25 initially",
        "most_of_others": "largest blending fraction of the other digits",
        "mean_of_others": "mean blending fraction of the other digits",
        "test_error": "of new students trained with the learned fractions, mean over classes, "
        "%",
    },
    settings={
        "smoke": Settings(2, 16, 0.05, 2, 0.1, 40, 20, 1000, 2, 2),
        "mini": Settings(100, 32, 0.02, 20, 0.1, 5000, 2000, 10_000, 5, 200),
        "gpu": Settings(teacher_steps=30),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 8, "gpu": 10, "paper": 20},
    run=run,
    claims=(
        Claim(
            "Test error and blending fraction are negatively correlated over the classes.",
            below("correlation", "drawn", 0.0),
        ),
        Claim(
            "The digit 1 has the largest blending fraction.",
            above("digit_1", "drawn", ("drawn", "most_of_others")),
        ),
        expectation(
            "With balanced classes in training and held-out images, too, the correlation is "
            "negative and the digit 1 has the largest blending fraction.",
            below("correlation", "balanced", 0.0)
            + above("digit_1", "balanced", ("balanced", "most_of_others")),
        ),
        expectation(
            "The correlation is also negative over the nine other digits, in both arms.",
            below("correlation_without_1", "drawn", 0.0)
            + below("correlation_without_1", "balanced", 0.0),
        ),
    ),
    table="Sec 4 / C.1",
    printed={("drawn", "correlation"): PRINTED},
    plots=(
        Panel("Blending fractions, seed 0, drawn", "drawn", "grid"),
        Panel("Blending fractions, seed 0, balanced", "balanced", "grid"),
        curves("Blending fraction of each digit", "fraction", ARMS, "fraction", DIGITS),
        curves("Test error of each digit", "%", ARMS, "error", DIGITS),
        Plot(
            "Blending fractions while they are learned",
            "fraction",
            {f"{who}, {arm}": (arm, who) for arm in ARMS for who in TRACKED},
            across="student",
        ),
        curves("Held-out loss of each student", "nats", ARMS, "held-out loss", "student"),
    ),
    prepare=lambda _settings: load_known("mnist"),
)
