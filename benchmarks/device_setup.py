"""What a device is judged with: students, batches and a teacher, the same on every device."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tests.cases import STUDENTS, C, build, stream
from tutelage.types import Batch, Observation, PreparedBatch

Kind = type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]


class Recurring(nn.Module):
    """Two layers, both ways, of one of torch's recurrent networks: cuDNN's where there is one.

    Args:
        kind: Its class.
    """

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.net = kind(2, hidden_size=5, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(10, C)

    def forward(self, x: Tensor) -> Tensor:
        """Classify sequences.

        Args:
            x: Four words each [B, 8].

        Returns:
            Logits.
        """
        return self.head(self.net(x.reshape(len(x), -1, 2))[0].mean(1))


def recurrent(kind: Kind) -> nn.Module:
    """A recurrent student in float64, drawn from a fixed seed.

    Args:
        kind: Of which class.

    Returns:
        The student.
    """
    torch.manual_seed(0)
    return Recurring(kind).double()


AWKWARD: dict[str, Callable[[], nn.Module]] = {
    **{name: partial(build, name) for name in STUDENTS},
    **{f"two-way {k.__name__}": partial(recurrent, k) for k in (nn.RNN, nn.GRU, nn.LSTM)},
}


@dataclass(frozen=True)
class Setup:
    """What a student is trained in."""

    device: torch.device
    dtype: torch.dtype = torch.float64
    autocast: torch.dtype | None = None
    dropout: bool = False

    @property
    def context(self) -> AbstractContextManager[Any]:
        """What a step runs in."""
        if self.autocast is None:
            return nullcontext()
        return torch.autocast(self.device.type, self.autocast)

    def student(self, name: str) -> nn.Module:
        """A student of the tables.

        Args:
            name: Its name.

        Returns:
            The student, on the device.
        """
        student = AWKWARD[name]()
        for part in student.modules() if not self.dropout else ():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
            if isinstance(part, nn.MultiheadAttention):
                part.dropout = 0.0
        return student.to(self.device, self.dtype)

    def batches(self) -> Iterator[Batch]:
        """Endless batches, the same on every device.

        Yields:
            A batch.
        """
        for batch in stream():
            inputs = batch.inputs.to(self.device, self.dtype)
            yield Batch(inputs, batch.targets.to(self.device), batch.ids.to(self.device))


class ByLoss(nn.Module):
    """From losses to weights without a kink, so that rounding stays rounding."""

    normalise: ClassVar = "mean"

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid())

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the seam
        """How much each row counts.

        Args:
            prepared: What the student saw.
            observation: Its losses.

        Returns:
            [L].
        """
        return self.net(observation.losses.unsqueeze(1)).squeeze(1)
