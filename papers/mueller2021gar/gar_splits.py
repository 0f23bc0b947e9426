"""Which split of the data to draw from: GAR draws less from a split with random labels.

Müller et al. 2021, Table 1 and Figure 2: CIFAR-10 in ten random splits; the labels of one are
random, or, as in the paper's notebook, its images are noise. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor, nn
from torch.optim import Adam

from papers.framework.recipe import Outcome, Plot, Recipe, above, below, expectation
from papers.framework.settings import RecipeSettings
from papers.students import accuracy, sgd, splits
from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed, seeded
from tutelage.signals import GradientAlignment, NextStepLoss, Signal
from tutelage.teachers import SplitSampler
from tutelage.training.tutor import Tutor
from tutelage.types import Batch
from tutelage_cli.claims import Claim, Comparison
from tutelage_cli.data.images import ImageSet

Corrupted = Literal["labels", "images"]


class Parts(NamedTuple):
    """N = K * size examples, part after part; part 0 is the corrupted one."""

    images: UInt8[Tensor, "N channels H W"]
    labels: Int64[Tensor, "N"]
    size: int  # examples in a part


def corrupted_parts(
    data: ImageSet, examples: int, parts: int, *, corrupt: Corrupted, seed: int
) -> Parts:
    """Random parts, the first with random labels or noise images."""
    size = examples // parts
    if not 1 <= size <= len(data) // parts:
        raise UsageError(
            f"{examples} examples in {parts} parts cannot be taken from the {len(data)} of "
            f"{data.name}; allowed: {parts}..{len(data)}."
        )
    draws = torch.Generator().manual_seed(seed)
    chosen = data.rows(torch.randperm(len(data), generator=draws)[: size * parts])
    images, labels = chosen.images, chosen.labels
    if corrupt == "labels":
        labels[:size] = torch.randint(len(data.classes), (size,), generator=draws)
    else:
        pixels = images[size : 2 * size].float()
        noise = torch.randn(images[:size].shape, generator=draws)
        drawn = noise * pixels.std() + pixels.mean()
        images[:size] = drawn.round().clamp(0, 255).to(torch.uint8)
    return Parts(images, labels, size)


REWARDS: Mapping[str, Signal] = {"gar": GradientAlignment(), "nslr": NextStepLoss()}
NETWORKS = {
    "fc": ("fc", 0.1),
    "fc-bn": ("fc-bn", 0.1),
    "cnn-bn": ("cnn-bn", 0.1),
    "cnn-bn-slow": ("cnn-bn", 0.03),
}
"""network and learning rate by the first word of an arm"""
ARMS = (
    *(f"{name}.{how}.labels" for name in NETWORKS for how in ("uniform", "nslr", "gar")),
    *(f"{name}.gar.images" for name in ("fc", "fc-bn", "cnn-bn-slow")),
)
"""network, reward, and whether labels or images of part 0 are noisy"""
TABLE = {"fc": "FC", "fc-bn": "FC_BN", "cnn-bn": "CNN_BN"}
"""what the paper calls the networks that it measured"""


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's."""

    examples: int = 50_000  # training images, in parts of equal size
    tested: int = 10_000  # test images
    parts: int = 10
    batch: int = 1000  # images per student step
    epochs: int = 10
    aggregate: int = 10  # student steps between two teacher steps
    teacher_lr: float = 0.1  # of Adam on the logits of the parts


def _network(name: str) -> nn.Module:
    # one of the paper's three
    if name == "cnn-bn":
        part = [nn.Conv2d(3, 1, 3, padding=1), nn.BatchNorm2d(1), nn.ReLU(), nn.Flatten()]
        return nn.Sequential(*part, nn.Linear(1024, 10))
    norm = [nn.BatchNorm1d(200)] if name == "fc-bn" else []
    return nn.Sequential(
        nn.Flatten(), nn.Linear(3072, 200), *norm, nn.ReLU(), nn.Linear(200, 10)
    )


def train(tutor: Tutor, parts: Parts, settings: Settings, seed: int) -> tuple[Tensor, Tensor]:
    """Train the student on batches that its teacher draws."""
    sampler, probabilities, losses = tutor.teacher, [], []
    assert isinstance(sampler, SplitSampler)
    draws = torch.Generator().manual_seed(mixed_seed(seed, 2))
    for _ in range(settings.epochs * (settings.examples // settings.batch)):
        probabilities.append(sampler.log_probs().detach().exp())
        rows = sampler.draw(settings.batch, generator=draws).row.to(parts.images.device)
        batch = Batch(_scaled(parts.images[rows]), parts.labels[rows], rows)
        losses.append(tutor.step(batch).loss)
    p = torch.stack(probabilities).view(settings.epochs, -1, settings.parts).mean(1)
    return p.cpu(), torch.stack(losses).view(settings.epochs, -1).mean(1).cpu()


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student with one seed."""
    name, reward, noise = arm.split(".")
    kind, lr = NETWORKS[name]
    corrupt: Corrupted = "images" if noise == "images" else "labels"
    data, cut = splits("cifar10").train, (settings.examples, settings.parts)
    made = corrupted_parts(data, *cut, corrupt=corrupt, seed=mixed_seed(seed, 1))
    parts = Parts(made.images.to(device), made.labels.to(device), made.size)
    with seeded(mixed_seed(seed, 0)):
        student = _network(kind).to(device)
    sampler = SplitSampler([parts.size] * settings.parts).to(device)
    tutor = Tutor(
        student,
        sgd(student, lr),
        sampler,
        Adam(sampler.parameters(), settings.teacher_lr) if reward in REWARDS else None,
        signal=REWARDS.get(reward),
        aggregate=settings.aggregate if reward in REWARDS else 1,
        seed=seed,
    )
    p, losses = train(tutor, parts, settings, seed)
    area, test = torch.trapezoid(p, dim=0), splits("cifar10").test
    shown = slice(settings.tested)
    with torch.no_grad():
        logits = student.eval()(_scaled(test.images[shown].to(device))).cpu()
    metrics = {
        "noisy_auc": float(area[0]),
        "other_auc": float(area[1:].mean()),
        "train_loss": float(losses[-1]),
        "test_accuracy": accuracy(logits, test.labels[shown]),
    }
    return Outcome(metrics, {"noisy part": p[:, 0].tolist(), "training loss": losses.tolist()})


def _scaled(images: Tensor) -> Tensor:
    return images.float() / 127.5 - 1


def _below_uniform(arm: str) -> tuple[Comparison, ...]:
    # the noisy part falls, and the others do not; nine tenths is the uniform share
    return below("noisy_auc", arm, 0.8) + above("other_auc", arm, 0.92)


def _pressed_down(name: str) -> tuple[Comparison, ...]:
    gar, nslr = f"{name}.gar.labels", f"{name}.nslr.labels"
    return _below_uniform(gar) + below("noisy_auc", gar, nslr, margin=0.1)


def _curves(title: str, label: str, series: str, nets: Sequence[str]) -> Plot:
    hows = ("uniform", "nslr", "gar")
    return Plot(
        title,
        label,
        {f"{net} {how}": (f"{net}.{how}.labels", series) for net in nets for how in hows},
    )


SMALL = Settings(examples=10_000, batch=200)
RECIPE = Recipe(
    name="gar-splits",
    title="A sampler that learns by gradient-alignment reward avoids the noisy split.",
    paper="gar",
    where="Table 1 and Figure 2",
    arms=ARMS,
    metrics={
        "noisy_auc": "area under the probability of the noisy split over ten epochs; 0.9 if "
        "uniform",
        "other_auc": "the same, mean over the other nine splits",
        "train_loss": "mean training loss of the last epoch, nats",
        "test_accuracy": "at the end of training, %",
    },
    settings={
        "smoke": Settings(examples=20, tested=20, batch=20, epochs=2, aggregate=1),
        "mini": SMALL,
        "gpu": Settings(),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 6, "gpu": 6, "paper": 6},
    run=run,
    claims=(
        Claim(
            "With fully connected networks, with and without batch norm, GAR draws less from "
            "the split with random labels: its area is below 0.8, and more than 0.1 below "
            "that of NSLR, the next step's loss as a reward; the area of the other splits is "
            "above 0.92.",
            (*_pressed_down("fc"), *_pressed_down("fc-bn")),
        ),
        Claim(
            "NSLR, which has one reward for a whole batch, does not find that split: with "
            "batch norm, its area stays above 0.88.",
            above("noisy_auc", "fc-bn.nslr.labels", 0.88),
        ),
        Claim(
            "With the small convolutional network at learning rate 0.03, GAR draws less from "
            "that split within the same bounds.",
            _pressed_down("cnn-bn-slow"),
        ),
        expectation(
            "With fully connected networks, GAR also draws less from a split whose images are "
            "noise: its area is below 0.8, and that of the other splits above 0.92.",
            (*_below_uniform("fc.gar.images"), *_below_uniform("fc-bn.gar.images")),
        ),
    ),
    table="Table 1",
    printed={
        (f"{net}.{how.lower()}.labels", metric): (f"{name} / {how}", column)
        for net, name in TABLE.items()
        for how in ("GAR", "NSLR")
        for metric, column in {"noisy_auc": "Noisy Split", "other_auc": "Other Splits"}.items()
    },
    plots=(
        _curves("Noisy split, fully connected", "probability", "noisy part", ["fc"]),
        _curves("Noisy split, with batch norm", "probability", "noisy part", ["fc-bn"]),
        _curves("Training loss, with batch norm", "loss", "training loss", ["fc-bn"]),
        _curves("Noisy split, CNN at 0.03", "probability", "noisy part", ["cnn-bn-slow"]),
    ),
    prepare=lambda _settings: splits("cifar10"),
)
