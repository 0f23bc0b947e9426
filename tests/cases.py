"""One table of awkward students, and the optimisers they meet: every signal sees them all."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from tutelage.bilevel import BilevelProblem
from tutelage.signals import Signal
from tutelage.training.step_strategy import StepStrategy
from tutelage.training.tutor import PLAIN_STEP, Tutor
from tutelage.types import Batch, Estimate, Params, Window, as_prepared

B, D, C = 6, 8, 3


class Tied(nn.Module):
    """One weight embeds tokens and gives the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(C, 4)
        self.mix = nn.Linear(4, 4)
        self.head = nn.Linear(4, C, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        tokens = (x[:, :4] > 0).long() + (x[:, 4:] > 0).long()
        return self.head(torch.tanh(self.mix(self.embed(tokens).sum(1))))


class Unused(nn.Module):
    """A layer that the forward pass never reaches, and a frozen one that it does."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(D, 5).requires_grad_(requires_grad=False)
        self.never = nn.Linear(2, 2)
        self.head = nn.Linear(5, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.frozen(x)))


class AmpStep(nn.Module):
    """A temperature without dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(D, 5)
        self.head = nn.Linear(5, C)
        self.temperature = nn.Parameter(torch.tensor(0.7))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.hidden(x))) * self.temperature


class Recurrent(nn.Module):
    """A GRU over two-dimensional words."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(2, 5, batch_first=True)
        self.head = nn.Linear(5, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.gru(x.reshape(len(x), -1, 2))[0][:, -1])


class Attending(nn.Module):
    """A transformer layer: attention, layer norms and dropout on a residual stream.

    Four features a token: a layer norm of two gives the signs alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.TransformerEncoderLayer(4, 2, 3, dropout=0.1, batch_first=True)
        self.head = nn.Linear(D, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encode(x.reshape(len(x), 2, 4)).flatten(1))


class Embedded(nn.Module):
    """Tokens, some of them padding; most rows of the table are never looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 3, padding_idx=0)
        self.head = nn.Linear(3, C)

    def forward(self, x: Tensor) -> Tensor:
        tokens = (x > -0.5).long() + (x > 0.5).long()
        return self.head(torch.tanh(self.embed(tokens).sum(1)))


def convolutional(norm: nn.Module) -> nn.Sequential:
    return nn.Sequential(
        nn.Unflatten(1, (2, 2, 2)),
        nn.Conv2d(2, 4, 2, padding=1),
        norm,
        nn.SiLU(),
        nn.Flatten(),
        nn.Linear(36, C),
    )


STUDENTS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Sequential(nn.Linear(D, C)),
    "relu network": lambda: nn.Sequential(nn.Linear(D, 7), nn.ReLU(), nn.Linear(7, C)),
    "batch norm": lambda: convolutional(nn.BatchNorm2d(4)),
    "group norm": lambda: convolutional(nn.GroupNorm(2, 4)),
    "layer norm": lambda: nn.Sequential(nn.Linear(D, 6), nn.LayerNorm(6), nn.Linear(6, C)),
    "dropout": lambda: nn.Sequential(
        nn.Linear(D, 7), nn.Tanh(), nn.Dropout(0.4), nn.Linear(7, C)
    ),
    "tied": Tied,
    "frozen and unused": Unused,
    "scalar parameter": AmpStep,
    "recurrent": Recurrent,
    "attention": Attending,
    "unused rows and padding": Embedded,
}
NOT_IN_INPUTS = ("tied", "unused rows and padding")
"""students that turn their inputs into token ids, which have no derivative"""


def scheduled_sgd(student: nn.Module) -> Optimizer:
    """Groups of settings, whose rates change after every step, each in its own way."""
    params = [p for p in student.parameters() if p.requires_grad]
    groups = [
        {"params": params[:1], "lr": 0.05, "momentum": 0.5, "weight_decay": 0.01},
        {"params": params[1:], "lr": 0.2, "momentum": 0.9},
    ]
    optimizer = SGD(groups, lr=0.1)

    def change(moved: Optimizer, _args: object, _kwargs: object) -> None:
        for group, factor in zip(moved.param_groups, (0.5, 1.2), strict=True):
            group["lr"] *= factor

    optimizer.register_step_post_hook(change)
    return optimizer


OPTIMIZERS: dict[str, Callable[[nn.Module], Optimizer]] = {
    "momentum": lambda s: SGD(s.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4),
    "scheduled groups": scheduled_sgd,
    "maximize": lambda s: SGD(s.parameters(), lr=0.02, momentum=0.8, maximize=True),
    "sgd": lambda s: SGD(s.parameters(), lr=0.1),
    "nesterov": lambda s: SGD(s.parameters(), lr=0.1, momentum=0.9, nesterov=True),
    "dampening": lambda s: SGD(s.parameters(), lr=0.1, momentum=0.9, dampening=0.3),
    "adam": lambda s: Adam(s.parameters(), lr=0.01, weight_decay=0.01),
    "amsgrad": lambda s: Adam(s.parameters(), lr=0.01, amsgrad=True),
    "adamw": lambda s: AdamW(s.parameters(), lr=0.01, weight_decay=0.1),
}
REVERSIBLE = ("momentum", "scheduled groups", "maximize")


class InputWeigher(nn.Module):
    """A teacher blind to the student, so that finite differences see the same function."""

    normalise: ClassVar = "mean"

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(D, 3), nn.Tanh(), nn.Linear(3, 1))

    def weigh(self, prepared, observation) -> Tensor:  # noqa: ARG002 - the interface
        return self.net(prepared.inputs).sigmoid().squeeze(1)


class Shifter(nn.Module):
    """A teacher that prepares: it moves the inputs, and is part of prediction."""

    at_test = True

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.full((D,), 0.1))

    def prepare(self, batch: Batch):
        return as_prepared(batch)._replace(inputs=batch.inputs + self.shift.tanh())


@dataclass
class Seen(Signal):
    """A signal that keeps what it was shown and leaves the teacher alone."""

    steps: int
    calls: list[tuple[BilevelProblem, Params, Window, Batch]] = field(default_factory=list)

    def __call__(
        self, problem: BilevelProblem, teacher_params: Params, window: Window, held_out: Batch
    ) -> Estimate:
        copied = window.end
        end = copied._replace(params={k: v.clone() for k, v in copied.params.items()})
        self.calls.append((
            problem,
            teacher_params,
            Window(window.start, window.steps, end),
            held_out,
        ))
        zero = {k: torch.zeros_like(p) for k, p in teacher_params.items()}
        return Estimate(zero, torch.zeros(()))


def stream(seed: int = 0) -> Iterator[Batch]:
    """Endless random batches in float64."""
    generator = torch.Generator().manual_seed(seed)
    number = 0
    while True:
        x = torch.randn(B, D, generator=generator, dtype=torch.float64)
        y = torch.randint(0, C, (B,), generator=generator)
        yield Batch(x, y, torch.arange(number, number + B))
        number += B


def build(name: str, seed: int = 0) -> nn.Module:
    """A student of the table, in float64."""
    torch.manual_seed(seed)
    return STUDENTS[name]().double()


def watched(
    student: nn.Module,
    optimizer: Optimizer,
    teacher: nn.Module,
    *,
    steps: int,
    before: int = 0,
    rates: Callable[[int], float] | None = None,
    step_strategy: StepStrategy = PLAIN_STEP,
    micro_batch: int | None = None,
) -> tuple[BilevelProblem, Params, Window, Batch]:
    """Train ``before + steps`` real steps and hand back the window of the last ``steps``."""
    seen = Seen(steps)
    learner = SGD(teacher.parameters(), lr=0.0)
    every = before + steps
    tutor = Tutor(
        student,
        optimizer,
        teacher,
        learner,
        signal=seen,
        teacher_every=every,
        total_steps=every,
        step_strategy=step_strategy,
        micro_batch=micro_batch,
    )
    batches = stream()
    for number in range(every):
        if rates is not None:
            for group in optimizer.param_groups:
                group["lr"] = rates(number)
        tutor.step(next(batches), next(batches) if tutor.wants_held_out else None)
    return seen.calls[0]


def in_turn(*tables: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Combinations for a test: all of all tables but the last, whose values take turns.

    Every pair of values still meets where two of the other tables have as many as the last.
    """
    *others, last = map(list, tables)
    return [
        (*(value for _, value in one), last[sum(place for place, _ in one) % len(last)])
        for one in product(*(list(enumerate(table)) for table in others))
    ]


def close(got: Params, want: Params, tolerance: float) -> None:
    """Named tensors agree, within a share of the largest number of all."""
    assert got.keys() == want.keys()
    scale = max(float(w.abs().max()) for w in want.values())
    assert scale > 0
    for key in want:
        assert float((got[key] - want[key]).abs().max()) <= tolerance * scale, key
