"""Teachers of all kinds, as users write them."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tests.fuzz.engine.data import N
from tests.fuzz.engine.objectives import C
from tutelage.losses.objectives import Normalise
from tutelage.teachers import KeepOrDrop, SplitSampler
from tutelage.types import Batch, Observation, PreparedBatch, as_prepared


class Table(nn.Module):
    """One weight for each example."""

    normalise: ClassVar[Normalise] = "mean"

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(N))

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002
        return self.table[prepared.ids].sigmoid()


class Plainly(Table):
    """Not rescaled over the batch."""

    normalise: ClassVar[Normalise] = None


class Column(Table):
    """Weights in a column."""

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        return super().weigh(prepared, observation)[:, None]


class Zeros(Table):
    """Half of the weights are exactly zero."""

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        return super().weigh(prepared, observation) * (prepared.ids % 2)


class Partly(Table):
    """A part of it is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.fixed = nn.Parameter(torch.zeros(N), requires_grad=False)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        return super().weigh(prepared, observation) + self.fixed[prepared.ids].sigmoid()


class Losses(nn.Module):
    """A smooth function of the loss."""

    normalise: ClassVar[Normalise] = "mean"
    attached: bool = False

    def __init__(self, *, attached: bool = False) -> None:
        super().__init__()
        self.attached = attached
        self.slope, self.level = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(()))

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002
        z = observation.losses
        return (self.level + self.slope[0] * z + self.slope[1] * z.tanh()).sigmoid()


class Relative(Losses):
    """Weighs by the loss against the batch's mean, attached."""

    def __init__(self) -> None:
        super().__init__(attached=True)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002
        z = observation.losses - observation.losses.mean()
        return (self.level + self.slope[0] * z).exp()


class OwnLosses(Losses):
    """Gives what the student descends in place of the loss."""

    def row_losses(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002
        z = observation.losses
        return z * self.slope[0].exp() + self.slope[1] * z.tanh()


class Dropping(nn.Module):
    """Has dropout of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 1))

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002
        return self.net(prepared.inputs.flatten(1)).sigmoid().squeeze(1)


class Counting(Table):
    """Weighs by how many steps it has seen, in a buffer that it writes into."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        self.seen += 1
        return super().weigh(prepared, observation) * (1 + (self.seen + prepared.ids).sin() / 2)


class Normalising(nn.Module):
    """Batch normalisation of losses, with running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(1)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002
        return self.norm(observation.losses[:, None]).squeeze(1).sigmoid()


class Remembering(Losses):
    """Weighs against a moving mean of losses, by the trait for it."""

    memory: ClassVar[Sequence[str]] = ("level_of_loss",)
    level_of_loss: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("level_of_loss", torch.ones(()))

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002
        z = observation.losses - self.level_of_loss
        return (self.level + self.slope[0] * z).sigmoid()

    def remember(self, prepared: PreparedBatch, observation: Observation) -> dict[str, Tensor]:  # noqa: ARG002
        mean = observation.losses.mean()
        return {"level_of_loss": 0.5 * self.level_of_loss + 0.5 * mean}


class Scheduled(Table):
    """Depends on how far training has come."""

    uses_progress: ClassVar[bool] = True

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        fraction, mean = observation.progress.fraction, observation.progress.mean_loss
        return (
            super().weigh(prepared, observation) * (1 + fraction)
            + (prepared.ids % 3) * mean / 4
        )


class Shift(nn.Module):
    """Moves inputs, at the test too."""

    at_test: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(4))

    def prepare(self, batch: Batch) -> PreparedBatch:
        return as_prepared(batch)._replace(inputs=batch.inputs + self.shift)


class Softening(nn.Module):
    """Learned soft labels."""

    def __init__(self) -> None:
        super().__init__()
        self.labels = nn.Parameter(torch.zeros(C, C))

    def prepare(self, batch: Batch) -> PreparedBatch:
        return as_prepared(batch)._replace(targets=self.labels[batch.targets].softmax(1))


class Copies(nn.Module):
    """Two noisy copies of each example, weighed within it."""

    normalise: ClassVar[Normalise] = "group"

    def __init__(self) -> None:
        super().__init__()
        self.noise, self.direction = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(4))

    def prepare(self, batch: Batch) -> PreparedBatch:
        rows = torch.arange(len(batch.ids)).repeat_interleave(2)
        x = batch.inputs[rows]
        noise = torch.randn(x.shape, dtype=torch.float64)  # the same numbers in any type
        x = x + self.noise * noise.to(x.dtype)
        return PreparedBatch(x, batch.targets[rows], batch.ids[rows], rows)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002
        return (prepared.inputs @ self.direction).exp()


class KeepPlainly(KeepOrDrop):
    """The mean over all rows, dropped ones included."""

    normalise: Normalise = None


def fixed(weighs: nn.Module) -> nn.Module:
    """Weights that nothing learns."""
    return weighs.requires_grad_(requires_grad=False)


def sampler(policy: Any = "inverted") -> SplitSampler:
    """Of three parts, which make up the rows that rewards are checked on."""
    return SplitSampler([2, 1, 2], policy=policy)
