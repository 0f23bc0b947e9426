"""Objectives: what the tutor is given, and the same written out for the plain loop."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tutelage.integrations.columns import TrainerLoss
from tutelage.losses import objectives
from tutelage.losses.targets import CrossEntropy

C = 3
Losses = Callable[[Tensor, Tensor], Tensor]


class Objective(NamedTuple):
    """An objective, with targets that fit it."""

    given: Losses
    """what the tutor gets"""
    plain: Losses
    """[L], by formula"""
    targets: Callable[[Tensor, torch.Generator], Tensor]
    """from classes [N]"""
    kind: str = "classes"
    outputs: int = C
    tokens: bool = False
    """outputs are [B, 2, C]"""
    counts: Callable[[Tensor], Tensor] | None = None
    """which rows count in a mean; None: all"""
    metric: Losses | None = None
    """given to the tutor, and how the plain loop judges"""
    couples: bool = False
    """a row's loss depends on the other rows"""
    refused: bool = False
    """has to be refused by name"""


def entropy(logits: Tensor, targets: Tensor) -> Tensor:
    at = logits.logsumexp(1)
    if targets.ndim == 2:
        return (targets * (at[:, None] - logits)).sum(1)
    return at - logits.gather(1, targets[:, None]).squeeze(1)


def without(mark: int) -> Losses:
    return lambda z, t: torch.where(t == mark, 0.0, entropy(z, t.where(t != mark, 0)))


def smoothed(logits: Tensor, targets: Tensor, share: float = 0.1) -> Tensor:
    log_p = logits.log_softmax(-1)
    own = -log_p.gather(-1, targets.clamp(min=0)[..., None]).squeeze(-1)
    return (1 - share) * own - share * log_p.mean(-1)


def sequences(share: float) -> Losses:
    def losses(logits: Tensor, targets: Tensor) -> Tensor:
        known = (targets != -100).to(logits.dtype)
        return (smoothed(logits, targets, share) * known).sum(1) / known.sum(1).clamp(min=1)

    return losses


def contrastive(z: Tensor, y: Tensor) -> Tensor:
    """Supervised contrast within the batch: rows of one class attract one another."""
    z = F.normalize(z, dim=1)
    log_p = (z @ z.T / 0.5).log_softmax(1)
    same = (y[:, None] == y).to(z.dtype)
    return -(log_p * same).sum(1) / same.sum(1)


def relative(z: Tensor, y: Tensor) -> Tensor:
    """Cross entropy in units of the batch's mean."""
    found = F.cross_entropy(z, y, reduction="none")
    return found / (1 + found.mean())


def square(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.flatten(1).sum(1) - targets) ** 2 if outputs.ndim == 2 else outputs


def error(z: Tensor, y: Tensor) -> Tensor:
    return 1 - z.softmax(1).gather(1, y[:, None]).squeeze(1)


def binary(z: Tensor, y: Tensor) -> Tensor:
    return (F.softplus(z) - z * y).mean(1)


def classes(y: Tensor, _: torch.Generator) -> Tensor:
    return y


def soft(y: Tensor, g: torch.Generator) -> Tensor:
    drawn = torch.rand(len(y), C, generator=g, dtype=torch.float64)
    return (drawn + 2 * F.one_hot(y, C)) / (drawn.sum(1, keepdim=True) + 2)


def marked(mark: int) -> Callable[[Tensor, torch.Generator], Tensor]:
    return lambda y, g: y.where(torch.rand(len(y), generator=g) > 0.3, mark)


def numbers(y: Tensor, g: torch.Generator) -> Tensor:
    return y - 1 + 0.1 * torch.randn(len(y), generator=g, dtype=torch.float64)


def several(y: Tensor, g: torch.Generator) -> Tensor:
    return (torch.rand(len(y), C, generator=g) > 0.5).double()


def some_numbers(y: Tensor, g: torch.Generator) -> Tensor:
    return torch.randn(len(y), C, generator=g, dtype=torch.float64)


def words(y: Tensor, g: torch.Generator) -> Tensor:
    tokens = torch.stack([y, (y + 1) % C], 1)
    return tokens.where(torch.rand(len(y), 2, generator=g) > 0.4, -100)


def sequences_that_count(targets: Tensor) -> Tensor:
    return (targets != -100).any(1)


TRAINER = TrainerLoss()
OBJECTIVES: Mapping[str, Objective] = {
    "cross entropy": Objective(objectives.cross_entropy, entropy, classes),
    "own function": Objective(
        lambda z, y: F.cross_entropy(z, y, reduction="none"), entropy, classes
    ),
    "soft labels": Objective(objectives.cross_entropy, entropy, soft, kind="soft"),
    "ignored -100": Objective(
        CrossEntropy(ignored=(-100,)),
        without(-100),
        marked(-100),
        kind="marked",
        counts=lambda t: t != -100,
    ),
    "ignored 255": Objective(
        CrossEntropy(ignored=(255, -1)),
        without(255),
        marked(255),
        kind="marked",
        counts=lambda t: t != 255,
    ),
    "judged by error": Objective(
        objectives.cross_entropy, entropy, classes, metric=objectives.expected_error
    ),
    "squared error": Objective(
        objectives.squared_error, square, numbers, kind="numbers", outputs=1
    ),
    "several labels": Objective(
        objectives.binary_cross_entropy, binary, several, kind="several"
    ),
    "contrastive": Objective(contrastive, contrastive, classes, couples=True),
    "relative": Objective(relative, relative, classes, couples=True),
    "tokens": Objective(
        objectives.TokenCrossEntropy(),
        sequences(0.0),
        words,
        kind="tokens",
        outputs=2 * C,
        tokens=True,
        counts=sequences_that_count,
    ),
    "smoothed tokens": Objective(
        objectives.TokenCrossEntropy(smoothing=0.1),
        sequences(0.1),
        words,
        kind="tokens",
        outputs=2 * C,
        tokens=True,
        counts=sequences_that_count,
    ),
    "trainer's labels": Objective(
        TRAINER, without(-100), marked(-100), kind="marked", counts=lambda t: t != -100
    ),
    "trainer's several labels": Objective(
        TrainerLoss("multi_label_classification"), binary, several, kind="several"
    ),
    "trainer's numbers": Objective(
        TrainerLoss("regression"),
        lambda z, t: (z - t).square().mean(1),
        some_numbers,
        kind="several",
    ),
    "broadcasting": Objective(
        lambda o, y: (o - y) ** 2, square, numbers, kind="numbers", outputs=1, refused=True
    ),
    "one number": Objective(F.cross_entropy, entropy, classes, refused=True),
    "broadcasting metric": Objective(
        objectives.squared_error,
        square,
        numbers,
        kind="numbers",
        outputs=1,
        metric=lambda o, y: (o - y) ** 2,
        refused=True,
    ),
}
JUDGES: Mapping[str, Losses] = {"judged by error": error}
"""how the plain loop judges where a metric is given"""
