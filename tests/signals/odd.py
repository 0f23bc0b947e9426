"""A table of what strangers bring: odd students, teachers and loops."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from tests.cases import C, D, InputWeigher, Shifter, convolutional
from tutelage.losses.objectives import Normalise
from tutelage.teachers import InternalState
from tutelage.types import Batch, Observation, PreparedBatch, as_prepared

# Students.


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(D, 7), nn.Tanh(), nn.Linear(7, C))


class TwoLayers(nn.Module):
    """What the odd students below share: D to 7 to C, and something in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(D, 7)
        self.last = nn.Linear(7, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.between(self.first(x)))

    def between(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class Sometimes(TwoLayers):
    """Uses its second branch for some batches only."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Linear(D, 7)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        if x[0, 0] > 0:
            hidden = hidden + self.branch(x)
        return self.last(hidden.tanh())


class Random(TwoLayers):
    """Draws random numbers in its forward pass without a dropout module."""

    def between(self, x: Tensor) -> Tensor:
        return (x + torch.rand_like(x)).tanh() * torch.bernoulli(torch.full_like(x, 0.7))


class Turned(TwoLayers):
    """Gives its logits as a view that is not contiguous."""

    def forward(self, x: Tensor) -> Tensor:
        return (self.last.weight @ self.first(x).tanh().T).T


class TurnedDropout(TwoLayers):
    """Drops out entries of a tensor that is not contiguous."""

    def between(self, x: Tensor) -> Tensor:
        return F.dropout(x.T.tanh(), 0.5, self.training).T


class ChannelsLast(nn.Module):
    """A convolution in the layout that graphics cards like best, and dropout behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 4, 2, padding=1)
        self.to(memory_format=torch.channels_last)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(36, C)

    def forward(self, x: Tensor) -> Tensor:
        images = x.reshape(-1, 2, 2, 2).to(memory_format=torch.channels_last)
        return self.head(self.drop(self.convolution(images).tanh()).flatten(1))


class Encoder(nn.Module):
    """A transformer layer with its usual dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(2, 4)
        self.encode = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.head = nn.Linear(4, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encode(self.embed(x.reshape(len(x), 4, 2))).mean(1))


class Attention(nn.Module):
    """Fused attention, which has no second derivative of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(2, 4)
        self.head = nn.Linear(4, C)

    def forward(self, x: Tensor) -> Tensor:
        q = self.embed(x.reshape(len(x), 1, 4, 2))
        return self.head(F.scaled_dot_product_attention(q, q, q).mean((1, 2)))


class Hyper(nn.Module):
    """Makes the weight of its own layer: a functional call inside the functional call."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(D, C)
        self.make = nn.Linear(3, D * C)
        self.code = nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.base.weight + self.make(self.code).reshape(C, D)
        return torch.func.functional_call(self.base, {"weight": weight}, (x,))


class OldTanh(torch.autograd.Function):
    """A custom function as most of them are written: without ``setup_context`` and ``jvp``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * (1 - x.tanh() ** 2)


class Custom(TwoLayers):
    def between(self, x: Tensor) -> Tensor:
        out = OldTanh.apply(x)
        assert isinstance(out, Tensor)
        return out


class Rescaling(TwoLayers):
    """Divides by a running scale that it replaces, as one that is not written in place does."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(7))

    def between(self, x: Tensor) -> Tensor:
        self.scale = 0.5 * self.scale + 0.5 * x.detach().abs().mean(0)
        return (x / self.scale).tanh()


class Shared(nn.Module):
    """Holds one layer under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(D, D)
        self.second = self.first
        self.last = nn.Linear(D, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.second(self.first(x).tanh()).tanh())


class Sparse(nn.Module):
    """An embedding with sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 4, sparse=True)
        self.last = nn.Linear(4, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.table((x > 0).long() + 3).mean(1).tanh())


# Teachers.


class Dropping(InputWeigher):
    """Has dropout of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(D, 20), nn.Dropout(0.5), nn.Linear(20, 1))


class Softening(nn.Module):
    """Prepares: learned soft labels."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(2 * torch.eye(C))

    def prepare(self, batch: Batch) -> PreparedBatch:
        return as_prepared(batch)._replace(targets=self.table[batch.targets].softmax(1))


class NoisyCopies(nn.Module):
    """Prepares three noisy copies of each example and weighs them within it."""

    normalise: ClassVar[Normalise] = "group"

    def __init__(self) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.linspace(-1, 1, D))
        self.noise = nn.Parameter(torch.tensor(0.3))

    def prepare(self, batch: Batch) -> PreparedBatch:
        rows = torch.arange(len(batch.ids)).repeat_interleave(3)
        inputs = batch.inputs[rows]
        inputs = inputs + self.noise * torch.randn_like(inputs)
        return PreparedBatch(inputs, batch.targets[rows], batch.ids[rows], rows)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
        return (prepared.inputs @ self.direction).exp()


def attached() -> nn.Module:
    surface = ("loss", "margin", "progress")
    teacher = InternalState(
        network(), classes=C, tap="0", surface=surface, hidden_layers=1, width=4, attached=True
    )
    nn.init.normal_(teacher.net.get_parameter("2.weight"))
    return teacher


# Loops.


def momentum(student: nn.Module) -> Optimizer:
    return SGD(student.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def nothing(number: int, student: nn.Module, optimizer: Optimizer) -> None:
    """Between two steps, nothing happens."""


def setting(name: str, *values: float) -> Callable[[int, nn.Module, Optimizer], None]:
    """Change a setting of the optimiser before each step, as a scheduler does."""

    def change(number: int, _student: nn.Module, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            group[name] = values[number % len(values)]

    return change


def frozen_at(*numbers: int) -> Callable[[int, nn.Module, Optimizer], None]:
    def change(number: int, student: nn.Module, _optimizer: Optimizer) -> None:
        student.get_submodule("0").requires_grad_(number not in numbers)

    return change


def head_only(student: nn.Module) -> Optimizer:
    return SGD(student.get_submodule("2").parameters(), lr=0.1, momentum=0.9)


def joined_at(start: int) -> Callable[[int, nn.Module, Optimizer], None]:
    def change(number: int, student: nn.Module, optimizer: Optimizer) -> None:
        if number == start:
            optimizer.add_param_group({"params": list(student.get_submodule("0").parameters())})

    return change


def uneven(student: nn.Module) -> Optimizer:
    first, second, *rest = student.parameters()
    groups = [
        {"params": [first], "momentum": 0.5, "lr": 0.02, "weight_decay": 0.3},
        {"params": [second], "momentum": 0.99},
        {"params": rest},
    ]
    return SGD(groups, lr=0.1, momentum=0.9)


@dataclass(frozen=True)
class Case:
    student: Callable[[], nn.Module] = network
    optimizer: Callable[[nn.Module], Optimizer] = momentum
    teacher: Callable[[], nn.Module] = InputWeigher
    between: Callable[[int, nn.Module, Optimizer], None] = nothing
    reversible: bool = True


CASES: dict[str, Case] = {
    "nothing odd": Case(),
    "a branch for some batches": Case(Sometimes),
    "a branch for some batches, adam": Case(
        Sometimes, lambda s: Adam(s.parameters(), lr=0.01), reversible=False
    ),
    "a branch for some batches, nesterov": Case(
        Sometimes,
        lambda s: SGD(s.parameters(), lr=0.1, momentum=0.9, nesterov=True),
        reversible=False,
    ),
    "random numbers in the forward pass": Case(Random),
    "logits that are not contiguous": Case(Turned),
    "dropout of a turned tensor": Case(TurnedDropout),
    "dropout in channels last": Case(ChannelsLast),
    "transformer layer": Case(Encoder),
    "fused attention": Case(Attention),
    "a functional call inside": Case(Hyper),
    "a custom function": Case(Custom),
    "evaluation mode": Case(lambda: convolutional(nn.BatchNorm2d(4)).eval()),
    "in place": Case(
        lambda: nn.Sequential(nn.Linear(D, 7), nn.ReLU(inplace=True), nn.Linear(7, C))
    ),
    "a layer under two names": Case(Shared),
    "sparse gradients": Case(Sparse, lambda s: SGD(s.parameters(), lr=0.1), reversible=False),
    "sparse gradients, momentum": Case(
        Sparse, lambda s: SGD(s.parameters(), lr=0.1, momentum=0.9)
    ),
    "groups": Case(optimizer=uneven),
    "maximize with decay": Case(
        optimizer=lambda s: SGD(
            s.parameters(), lr=0.02, momentum=0.8, maximize=True, weight_decay=0.1
        )
    ),
    "adam, maximize with decay": Case(
        optimizer=lambda s: Adam(s.parameters(), lr=0.02, maximize=True, weight_decay=0.3),
        reversible=False,
    ),
    "adamw, maximize with decay": Case(
        optimizer=lambda s: AdamW(s.parameters(), lr=0.02, maximize=True, weight_decay=0.3),
        reversible=False,
    ),
    "momentum goes round": Case(between=setting("momentum", 0.5, 0.6, 0.95, 0.7, 0.8)),
    "momentum is off in a step": Case(
        between=setting("momentum", 0.5, 0.6, 0.0, 0.7, 0.8), reversible=False
    ),
    "a rate of zero in a step": Case(between=setting("lr", 0.1, 0.1, 0.1, 0.0, 0.1)),
    "weight decay changes": Case(between=setting("weight_decay", 0.5, 0.6, 0.0, 0.7, 0.8)),
    "frozen in two steps": Case(between=frozen_at(2, 3)),
    "frozen in two steps, adam": Case(
        optimizer=lambda s: Adam(s.parameters(), lr=0.01),
        between=frozen_at(2, 3),
        reversible=False,
    ),
    "frozen in the last step": Case(between=frozen_at(4)),
    "thawed before the window": Case(between=frozen_at(0, 1)),
    "thawed in the window": Case(between=frozen_at(0, 1, 2)),
    "joined before the window": Case(optimizer=head_only, between=joined_at(2)),
    "a teacher with dropout": Case(teacher=Dropping),
    "a teacher of soft labels": Case(teacher=Softening),
    "a teacher of copies": Case(teacher=NoisyCopies),
    "a teacher of copies, with dropout below": Case(Random, teacher=NoisyCopies),
    "a teacher at test": Case(teacher=Shifter),
    "an attached teacher": Case(teacher=attached),
}
