"""Students put together in awkward ways: the dots are right, or one error says why not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.per_example.oracle import (
    F64,
    Case,
    direction_for,
    numbers,
    one_by_one,
    recorded,
    tokens,
)
from tutelage.errors import UnsupportedStudentError
from tutelage.per_example import Recorder


class Made(nn.Module):
    """Parts, and a forward pass given as a function."""

    def __init__(self, forward: Callable, **parts: nn.Module | Tensor) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.run = forward

    def forward(self, x: Tensor):
        return self.run(self, x)


@dataclass
class Answer:
    logits: Tensor
    note: str
    hidden: list[Tensor]


def linear(size: int = 4, out: int = 4) -> nn.Linear:
    return nn.Linear(size, out)


def tied_names() -> nn.Module:
    student: Any = Made(lambda s, x: s.b(s.a(x).tanh()), a=linear(), b=linear())
    student.b.weight = student.a.weight
    student.b.bias = student.a.bias
    return student


def tied_in_raw() -> nn.Module:
    a = linear()
    inner = Made(lambda s, x: x @ s.w.tanh() + s.again, w=a.weight, again=a.bias)
    return Made(lambda s, x: s.inner(s.a(x)), a=a, inner=inner)


def twice_under_two_names() -> nn.Module:
    shared = nn.Parameter(torch.randn(4, 4))
    return Made(lambda s, x: (x @ s.p).tanh() @ s.q, p=shared, q=shared)


def frozen() -> nn.Module:
    student: Any = nn.Sequential(linear(), nn.Tanh(), linear(), nn.Tanh(), linear())
    student[0].requires_grad_(requires_grad=False)
    student[2].weight.requires_grad_(requires_grad=False)
    student[4].bias.requires_grad_(requires_grad=False)
    return student


def convolving(*parts: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, 2, 2)), *parts, nn.Flatten())


def residual(s: Any, x: Tensor) -> Tensor:
    y = s.a(x)
    y += x
    z = F.relu(s.b(y), inplace=True)
    return s.c(z).add_(y)


def rested(s: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        features = s.a(x).tanh()
    return s.b(features)


class Reusing(nn.Module):
    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.a, self.norm, self.b = linear(), nn.LayerNorm(4), linear()
        self.gru = nn.GRU(4, 4, batch_first=True)
        self.reentrant = reentrant

    def inner(self, x: Tensor) -> Tensor:
        return self.gru(self.norm(self.a(x)).unsqueeze(1))[0].squeeze(1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0 * self.b.weight.detach().sum().requires_grad_()
        return self.b(checkpoint(self.inner, x, use_reentrant=self.reentrant))


def hooked() -> nn.Module:
    student = nn.Sequential(linear(), nn.Tanh(), linear(), nn.PReLU())
    student[0].register_forward_hook(lambda _m, _a, out: out.sin() * 2)
    student[2].register_forward_pre_hook(lambda _m, args: (args[0] * 3,))
    student[3].register_forward_pre_hook(lambda _m, args: (args[0] - 1,))
    student[3].register_forward_hook(lambda _m, _a, out: out.sin())
    return student


def overridden() -> nn.Module:
    student: Any = nn.Sequential(linear(), nn.Tanh(), linear())
    student[0].forward = lambda x: F.linear(x, student[0].weight.exp(), student[0].bias)
    return student


class Doubled(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).pow(2)


def answer(s: Any, x: Tensor) -> Answer:
    hidden = s.a(x).tanh()
    return Answer(s.b(hidden), "note", [hidden, s.c(hidden)])


class Giving(nn.Module):
    """Parameters of its own, and what it gives as a dataclass of a dict and a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor):
        y = (x * self.scale).sin()
        return Answer(y, "x", [y, y * 2])


def giving(s: Any, x: Tensor) -> Tensor:
    got = s.inner(x)
    return s.b(got.logits + got.hidden[1] + got.hidden[0])


def old_spectral() -> nn.Module:
    torch.manual_seed(1)
    return nn.utils.spectral_norm(linear())


def unused(s: Any, x: Tensor) -> Tensor:
    s.b(x)
    return s.a(x)


STUDENTS: dict[str, Callable[[], nn.Module]] = {
    "tied layers": tied_names,
    "tied to raw parameters": tied_in_raw,
    "one parameter under two names": twice_under_two_names,
    "frozen in part": frozen,
    "raw parameter in the root": lambda: Made(
        lambda s, x: s.a(x).tanh() * s.scale + s.shift,
        a=linear(),
        scale=nn.Parameter(torch.randn(4)),
        shift=nn.Parameter(torch.randn(1, 4)),
    ),
    "called twice": lambda: Made(lambda s, x: s.a(s.a(x).tanh()) + s.a(x), a=linear()),
    "norm called twice": lambda: Made(lambda s, x: s.a(s.a(x).tanh()), a=nn.LayerNorm(4)),
    "in place": lambda: Made(residual, a=linear(), b=linear(), c=linear()),
    "in place after a convolution": lambda: convolving(
        nn.Conv2d(1, 3, 1), nn.ReLU(inplace=True), nn.GroupNorm(1, 3), nn.ELU(inplace=True)
    ),
    "without gradients": lambda: Made(rested, a=linear(), b=linear()),
    "checkpoint": lambda: Reusing(reentrant=False),
    "user's hooks": hooked,
    "own forward": overridden,
    "subclass": lambda: Doubled(4, 4),
    "called for nothing": lambda: Made(unused, a=linear(), b=linear()),
    "gives a dataclass": lambda: Made(answer, a=linear(), b=linear(), c=linear()),
    "inner gives a dataclass": lambda: Made(giving, inner=Giving(), b=linear()),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(linear()),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(linear()).eval(),
    "old spectral norm": lambda: old_spectral().eval(),
    "orthogonal": lambda: nn.utils.parametrizations.orthogonal(linear()),
}


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.*:FutureWarning")
@pytest.mark.parametrize("rows", [4, 3, 1])
@pytest.mark.parametrize("name", STUDENTS)
def test_an_awkward_student_equals_a_gradient_per_example(name: str, rows: int) -> None:
    torch.manual_seed(0)
    student, x = STUDENTS[name]().to(F64), numbers(rows, 4)
    g = direction_for(student)
    expected = one_by_one(student, x, g)
    recorder = Recorder(student)
    for _ in range(2):
        found = recorded(student, x, g, recorder=recorder)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.*:FutureWarning")
def test_old_weight_norm_equals_a_gradient_per_example() -> None:
    student, x = nn.utils.weight_norm(linear().to(F64)), numbers(4, 4)
    g = direction_for(student)
    torch.testing.assert_close(recorded(student, x, g), one_by_one(student, x, g))


def test_duplicated_rows_have_equal_dots() -> None:
    student, x = nn.Sequential(linear(), nn.Tanh(), linear()).to(F64), numbers(2, 4)
    x = x.repeat_interleave(3, 0)
    g = direction_for(student)
    found = recorded(student, x, g)
    torch.testing.assert_close(found, one_by_one(student, x, g))


@pytest.mark.parametrize("rows", [3, 4])
def test_reentrant_checkpoints_are_right_or_reported(rows: int) -> None:
    student, x = Reusing(reentrant=True).to(F64), numbers(rows, 4)
    g = direction_for(student)
    try:
        found = recorded(student, x, g)
    except UnsupportedStudentError:
        assert rows == 4  # as many as features, and such a student cannot be probed
    else:
        student.reentrant = False  # the reference takes gradients that way only
        torch.testing.assert_close(found, one_by_one(student, x, g))


def elsewhere(s: Any, x: Tensor) -> Tensor:
    return s.big(s.a(x).tanh()) + 1e-2 * F.linear(x, s.a.weight)


REPORTED: dict[str, Case] = {
    "used functionally": (
        lambda: Made(elsewhere, a=linear(), big=linear()),
        lambda: numbers(4, 4),
    ),
    "used functionally only": (
        lambda: Made(lambda s, x: F.linear(x, s.a.weight, s.a.bias), a=linear()),
        lambda: numbers(4, 4),
    ),
    "rows flattened": (
        lambda: Made(lambda s, x: s.a(x.reshape(-1, 4)).reshape(len(x), -1), a=linear()),
        lambda: numbers(4, 3, 4),
    ),
    "rows flattened, as many words as rows": (
        lambda: Made(lambda s, x: s.a(x.reshape(-1, 4)).reshape(len(x), -1), a=linear()),
        lambda: numbers(4, 4, 4),
    ),
    "rows flattened into the number of features": (
        lambda: Made(lambda s, x: s.a(x.T).T, a=linear()),
        lambda: numbers(4, 4),
    ),
    "positions looked up once": (
        lambda: Made(lambda s, x: s.a(x) + s.a(torch.arange(4)), a=nn.Embedding(6, 4)),
        lambda: tokens(4, 4),
    ),
}


@pytest.mark.parametrize("name", REPORTED)
def test_what_is_not_seen_is_reported_and_never_wrong(name: str) -> None:
    torch.manual_seed(0)
    build, feed = REPORTED[name]
    student, x = build().to(F64), feed()
    g = direction_for(student)
    try:
        found = recorded(student, x, g)
    except UnsupportedStudentError:
        with pytest.raises(UnsupportedStudentError, match="method='forward'"):
            recorded(student, x, g)
    else:
        torch.testing.assert_close(found, one_by_one(student, x, g))
