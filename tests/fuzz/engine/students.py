"""Students: one row adds one. Each takes [B, D] and gives [B, n]."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations as new
from torch.utils.checkpoint import checkpoint

D, H = 4, 6


class Student(NamedTuple):
    """How a student is made, and what is known of it."""

    build: Callable[[int], nn.Module]
    renews: bool = False
    """its forward pass depends on buffers that the pass before renewed"""
    couples: bool = False
    """a row's output depends on the other rows"""
    smooth: bool = True
    detaches: bool = False
    """renews buffers by numbers cut off from the graph, which no derivative passes; at rest it
    takes them as they are"""
    still: bool = True
    """draws no random numbers"""


def mlp(n: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(D, H), nn.Tanh(), nn.Linear(H, n))


def deeper(n: int, middle: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(D, H), middle, nn.Tanh(), nn.Linear(H, n))


def convolutional(n: int, norm: nn.Module) -> nn.Sequential:
    layers = [nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 4, 2, padding=1), norm, nn.SiLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(36, n))


def at_rest(n: int) -> nn.Module:
    student = deeper(n, nn.BatchNorm1d(H))
    return student.eval()


def normed(n: int, norm: Callable[[nn.Module], nn.Module], *places: int) -> nn.Module:
    student = mlp(n)
    for place in places:
        norm(student[place])
    return student


def old_weight_norm(n: int) -> nn.Module:
    return normed(n, nn.utils.weight_norm, 0, 2)


class Between(nn.Module):
    """A layer, something in between, and another layer."""

    def __init__(self, n: int, width: int = H) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(D, H), nn.Linear(width, n)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.between(self.first(x)))

    def between(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class Checkpointed(Between):
    """Its middle is run again in the backward pass."""

    def __init__(self, n: int, *, reentrant: bool) -> None:
        super().__init__(n)
        self.middle = nn.Sequential(nn.Linear(H, H), nn.Tanh())
        self.reentrant = reentrant

    def between(self, x: Tensor) -> Tensor:
        return checkpoint(self.middle, x, use_reentrant=self.reentrant)


class CheckpointedDropout(Checkpointed):
    def __init__(self, n: int) -> None:
        super().__init__(n, reentrant=False)
        self.middle.append(nn.Dropout(0.3))


class CheckpointedAttention(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(2, 4), nn.Linear(4, n)
        self.encode = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x.reshape(len(x), 2, 2))
        return self.head(checkpoint(self.encode, tokens, use_reentrant=False).mean(1))


class Attending(nn.Module):
    def __init__(self, n: int, dropout: float) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(2, 4), nn.Linear(4, n)
        self.encode = nn.TransformerEncoderLayer(4, 2, 5, dropout=dropout, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encode(self.embed(x.reshape(len(x), 2, 2))).mean(1))


class Fused(nn.Module):
    """Attention by torch's own kernel."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(2, 4), nn.Linear(4, n)

    def forward(self, x: Tensor) -> Tensor:
        q = self.embed(x.reshape(len(x), 1, 2, 2))
        return self.head(F.scaled_dot_product_attention(q, q, q).mean((1, 2)))


class Recurrent(nn.Module):
    def __init__(self, n: int, kind: Callable[..., nn.RNNBase]) -> None:
        super().__init__()
        self.cell = kind(2, 4, batch_first=True)
        self.head = nn.Linear(4, n)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cell(x.reshape(len(x), 2, 2))[0][:, -1])


class Tied(Between):
    """One weight in two layers."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.one, self.two = nn.Linear(H, H), nn.Linear(H, H)
        self.two.weight = self.one.weight

    def between(self, x: Tensor) -> Tensor:
        return self.two(self.one(x).tanh()).tanh()


class Writing(nn.Module):
    """Normalises its input in place."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.net = mlp(n)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x.sub_(0.5).div_(2.0))


class Counting(Between):
    """Divides by the number of its forward passes."""

    passes: Tensor

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.register_buffer("passes", torch.zeros(()))

    def between(self, x: Tensor) -> Tensor:
        self.passes += 1
        return x.tanh() / self.passes.clone()  # another pass may come before the backward pass


class Rescaling(Between):
    """Divides by a running scale that it replaces."""

    scale: Tensor

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.register_buffer("scale", torch.ones(H))

    def between(self, x: Tensor) -> Tensor:
        if self.training:
            self.scale = 0.5 * self.scale + 0.5 * x.detach().abs().mean(0)
        return (x / self.scale).tanh()


class Centring(Between):
    """Subtracts the batch's mean."""

    def between(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)).tanh()


class AcrossRows(Between):
    """Attends to the other rows of its batch."""

    def between(self, x: Tensor) -> Tensor:
        return ((x @ x.T / 3).softmax(1) @ x).tanh()


class Partly(Between):
    """A first layer that is frozen, and a layer that nothing reaches."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.middle, self.unused = nn.Linear(H, H), nn.Linear(3, 2)
        self.first.requires_grad_(requires_grad=False)

    def between(self, x: Tensor) -> Tensor:
        return self.middle(x.tanh()).tanh()


class Random(Between):
    """Draws numbers without a module of its own."""

    def between(self, x: Tensor) -> Tensor:
        # in double precision, so that the numbers are the same in any type
        added = torch.rand(x.shape, dtype=torch.float64)
        kept = torch.full(x.shape, 0.7, dtype=torch.float64).bernoulli()
        return (x + added.to(x.dtype)).tanh() * kept.to(x.dtype)


class Embedding(Between):
    """Turns its inputs into tokens."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.table = nn.Embedding(9, H, padding_idx=0)

    def forward(self, x: Tensor) -> Tensor:
        tokens = (x > -0.5).long() + 2 * (x > 0.5).long()
        return self.last(self.table(tokens).sum(1).tanh())


class Tempered(Between):
    """A parameter without dimensions."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.temperature = nn.Parameter(torch.tensor(0.7))

    def between(self, x: Tensor) -> Tensor:
        return x.tanh() * self.temperature


def instance_norm(n: int) -> nn.Module:
    return convolutional(n, nn.InstanceNorm2d(4, affine=True, track_running_stats=True))


def weight_and_batch_norm(n: int) -> nn.Module:
    student = deeper(n, nn.BatchNorm1d(H))
    new.weight_norm(student[0])
    return student


STUDENTS: Mapping[str, Student] = {
    "mlp": Student(mlp),
    "linear": Student(lambda n: nn.Linear(D, n)),
    "relu": Student(
        lambda n: nn.Sequential(nn.Linear(D, H), nn.ReLU(), nn.Linear(H, n)), smooth=False
    ),
    "convolution": Student(lambda n: convolutional(n, nn.GroupNorm(2, 4))),
    "batch norm": Student(lambda n: deeper(n, nn.BatchNorm1d(H)), couples=True),
    "batch norm 2d": Student(lambda n: convolutional(n, nn.BatchNorm2d(4)), couples=True),
    "batch norm cumulative": Student(
        lambda n: deeper(n, nn.BatchNorm1d(H, momentum=None)), couples=True
    ),
    "batch norm at rest": Student(at_rest),
    "instance norm": Student(instance_norm),
    "layer norm": Student(lambda n: deeper(n, nn.LayerNorm(H))),
    "attention": Student(lambda n: Attending(n, 0.0)),
    "attention dropout": Student(lambda n: Attending(n, 0.1), still=False),
    "fused attention": Student(Fused),
    "rnn": Student(lambda n: Recurrent(n, nn.RNN)),
    "lstm": Student(lambda n: Recurrent(n, nn.LSTM)),
    "gru": Student(lambda n: Recurrent(n, nn.GRU)),
    "dropout": Student(lambda n: deeper(n, nn.Dropout(0.4)), still=False),
    "random": Student(Random, still=False),
    "tied": Student(Tied),
    "weight norm": Student(lambda n: normed(n, new.weight_norm, 0, 2)),
    "weight norm old": Student(old_weight_norm),
    "weight and batch norm": Student(weight_and_batch_norm, couples=True),
    "orthogonal": Student(lambda n: normed(n, new.orthogonal, 0)),
    "spectral norm": Student(
        lambda n: normed(n, new.spectral_norm, 0), renews=True, detaches=True
    ),
    "spectral norm old": Student(
        lambda n: normed(n, nn.utils.spectral_norm, 0), renews=True, detaches=True
    ),
    "checkpointed": Student(lambda n: Checkpointed(n, reentrant=False)),
    "checkpointed reentrant": Student(lambda n: Checkpointed(n, reentrant=True)),
    "checkpointed dropout": Student(CheckpointedDropout, still=False),
    "checkpointed attention": Student(CheckpointedAttention),
    "writing": Student(Writing),
    "counting": Student(Counting, renews=True),
    "rescaling": Student(Rescaling, renews=True, detaches=True),
    "centring": Student(Centring, couples=True),
    "across rows": Student(AcrossRows, couples=True),
    "partly": Student(Partly),
    "embedding": Student(Embedding, smooth=False),
    "tempered": Student(Tempered),
}
