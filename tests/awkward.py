"""Students and objectives whose rows depend on one another, each in its own way."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

B, D, C = 8, 4, 3


class Body(nn.Module):
    """Two layers with something between them."""

    def __init__(self) -> None:
        super().__init__()
        self.below, self.head = nn.Linear(D, 6), nn.Linear(6, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.mixed(torch.tanh(self.below(x)), x))

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002 - for those that need it
        return h


class Attends(Body):
    """To the other rows of the batch."""

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        return h + (h @ h.T).softmax(1) @ h


class Centred(Body):
    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        return h - h.mean(0)


class InLargeBatches(Body):
    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        return h - h.mean(0) if len(h) >= 6 else h


class InTraining(Body):
    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        return h - h.mean(0) if self.training else h


class OnSomeInputs(Body):
    def mixed(self, h: Tensor, x: Tensor) -> Tensor:
        return h - h.mean(0) if float(x[0, 0]) > 0 else h


class SomeRows(Body):
    """Whose first feature is positive see the mean of all."""

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:
        return torch.where(x[:, :1] > 0, h - h.mean(0), h)


class Gated(Body):
    """By a gate that is closed at the start."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        return h + self.gate * h.square().mean(0)


class WithoutHead(Centred):
    """Nothing passes the head at the start."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.zeros_(self.head.weight)


class WholeBatches(Body):
    """Cannot be run on fewer rows."""

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        pairs = h.view(B // 2, 2, 6)
        return (pairs + pairs.flip(1)).view(B, 6)


class ByChance(Body):
    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        return h + F.dropout(h.mean(0, keepdim=True), 0.5) * torch.rand((), dtype=h.dtype)


class Normalised(Body):
    """Batch normalisation as one writes it oneself."""

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        return (h - h.mean(0)) / (h.var(0) + 1e-3).sqrt()


class BatchNorm(Body):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        return self.norm(h)


STUDENTS: dict[str, Callable[[], nn.Module]] = {
    kind.__name__: kind
    for kind in (
        *(Attends, Centred, InLargeBatches, InTraining, OnSomeInputs, SomeRows, Gated),
        *(WithoutHead, WholeBatches, ByChance, Normalised, BatchNorm),
    )
}


def plain(z: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(z, y, reduction="none")


def contrastive(z: Tensor, y: Tensor) -> Tensor:
    z = F.normalize(z, dim=1)
    return F.cross_entropy(z @ z.T / 0.5 - 1e9 * torch.eye(len(z)), y, reduction="none")


def less_the_mean(z: Tensor, y: Tensor) -> Tensor:
    losses = plain(z, y)
    return losses.square() - losses.mean() * losses


def ranked(z: Tensor, y: Tensor) -> Tensor:
    """Rows of a higher class should score higher."""
    score = z[:, 0]
    above = (y[:, None] > y).to(z.dtype)
    return (above * F.softplus(score - score[:, None])).sum(1)


def two_rows(z: Tensor, y: Tensor) -> Tensor:
    """The first two alone see one another."""
    losses = plain(z, y)
    return torch.cat([losses[:2] + losses[:2].flip(0).square(), losses[2:]])


OBJECTIVES = {o.__name__: o for o in (contrastive, less_the_mean, ranked, two_rows)}
