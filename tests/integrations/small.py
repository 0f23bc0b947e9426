"""What the tests of all frameworks share: few examples, a student, a teacher."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.data import DataLoader, TensorDataset

from tests.cases import C, D, InputWeigher
from tutelage.data.loaders import RandomBatches, WithIds, as_batch
from tutelage.integrations import Teaching
from tutelage.losses.objectives import Objective
from tutelage.signals import Lookahead, Signal, Unrolled
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

BATCHES = 5
"""in an epoch"""


def examples(seed: int, count: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, D, generator=generator)
    return TensorDataset(inputs, torch.randint(C, (count,), generator=generator))


def loader() -> DataLoader[tuple[Tensor, Tensor, Tensor]]:
    return DataLoader(WithIds(examples(0, 6 * BATCHES)), batch_size=6)


def epochs(number: int) -> Iterator[Batch]:
    for _ in range(number):
        yield from map(as_batch, loader())


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, 7), nn.Tanh(), nn.Dropout(0.2), nn.Linear(7, C))


def momentum(student: nn.Module) -> Optimizer:
    return SGD(student.parameters(), lr=0.1, momentum=0.9)


LONG = Unrolled(3)
"""looks back over steps of two epochs, so that a checkpoint between holds some of them"""


def teaching(
    signal: Signal | None = LONG,
    micro_batch: int | None = None,
    objective: Objective | None = None,
) -> Teaching:
    torch.manual_seed(1)
    teacher = InputWeigher()
    return Teaching(
        teacher,
        None if signal is None else SGD(teacher.parameters(), lr=0.5, momentum=0.9),
        signal=signal,
        held_out=RandomBatches(examples(1, 12), 6),
        teacher_every=1 if isinstance(signal, Lookahead) else 4,
        max_norm=0.5,
        micro_batch=micro_batch,
        objective=objective,
    )


def own_loop(number: int, taught: Teaching, student: nn.Module | None = None) -> Tutor:
    """The tutor after some epochs of an ordinary loop."""
    student = network() if student is None else student
    tutor = taught.tutor(student, momentum(student))
    for batch in epochs(number):
        taught.step(tutor, batch)
    return tutor
