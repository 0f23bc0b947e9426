"""Signals leave real training alone: a taught run without an effect is the plain torch run."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tests.awkward import STUDENTS, B, Body, D, plain
from tests.tutoring import same
from tutelage.errors import InexactWindowError, UnsupportedStudentError
from tutelage.signals import Implicit, Lookahead, Neumann, Replayed, Reversible, Unrolled
from tutelage.signals.products import Alignment
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

F64 = torch.float64


class Ones(nn.Module):
    """Weighs all rows alike, and learns nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros((), dtype=F64))

    def weigh(self, prepared, observation) -> Tensor:  # noqa: ARG002 - the interface
        return torch.ones_like(observation.losses) + 0.0 * self.nothing


class InPlace(Body):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.sub_(1.0).div_(2.0))


class Counts(Body):
    """What it keeps outside of parameters: a buffer, a number, a list, a tensor, a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.number, self.seen, self.average = 0, [], torch.zeros(D, dtype=F64)
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.number += 1
        self.seen.append(float(x.sum()))
        self.average.mul_(0.9).add_(0.1 * x.mean(0))
        self.last = x.detach().clone()
        self.calls += 1
        return super().forward(x)


class ByBuffer(Body):
    """Whose output depends on a buffer that each pass replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.level: Tensor
        self.register_buffer("level", torch.zeros((), dtype=F64))

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:
        self.level = 0.5 * self.level + 0.5 * x.mean()
        return h - self.level


class Switches(Body):
    """Modes and flags that its forward pass sets."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        self.norm.train(bool(h.requires_grad))
        return self.norm(h)


class Spectral(Body):
    def __init__(self) -> None:
        super().__init__()
        nn.utils.parametrizations.spectral_norm(self.below)


KINDS: dict[str, Any] = {
    kind.__name__: kind for kind in (InPlace, Counts, ByBuffer, Switches, Spectral)
} | {name: STUDENTS[name] for name in ("Attends", "BatchNorm", "WholeBatches")}
SIGNALS = {
    "unrolled": Unrolled(2),
    "replayed": Replayed(2),
    "reversible": Reversible(2),
    "lookahead": Lookahead(),
    "ghost": Lookahead(Alignment("ghost")),
    "differences": Lookahead(Alignment("difference")),
    "restep": Lookahead(mode="restep"),
    "next": Lookahead(evaluate_on="next"),
    "implicit": Implicit(Neumann(2, 0.05)),
}
STEPS = 4
REFUSED: dict[Any, Any] = {
    (Spectral, SIGNALS[name]): (UnsupportedStudentError, "a hypergradient would be off")
    for name in SIGNALS
} | {(ByBuffer, SIGNALS["reversible"]): (InexactWindowError, "Reversing 2 steps is off")}


def rows_of(step: int) -> Batch:
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(B, D, generator=generator, dtype=F64)
    return Batch(x, torch.arange(B) % 3, torch.arange(B))


def student(kind: str) -> nn.Module:
    torch.manual_seed(0)
    return KINDS[kind]().double()


def held(module: nn.Module) -> dict[str, Any]:
    """All that a student is, its gradients, flags, modes, hooks and attributes included."""
    attributes = ("number", "seen", "average", "last")
    return {
        "state": dict(module.state_dict()),
        "gradients": {k: p.grad for k, p in module.named_parameters()},
        "flags": [p.requires_grad for p in module.parameters()],
        "modes": [part.training for part in module.modules()],
        "hooks": [
            (len(part._forward_hooks), len(part._forward_pre_hooks))
            for part in module.modules()
        ],
        "attributes": {k: getattr(module, k) for k in attributes if hasattr(module, k)},
    }


@pytest.mark.parametrize("signal", SIGNALS.values(), ids=SIGNALS.keys())
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_without_effect_is_the_plain_torch_run_bit_for_bit(kind, signal) -> None:
    alone, moved = student(kind), student(kind)
    optimizer = SGD(alone.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        batch = rows_of(step)
        losses = plain(alone(batch.inputs), batch.targets)
        optimizer.zero_grad()
        (losses.sum() / B).backward()
        optimizer.step()
    teacher = Ones()
    tutor = Tutor(
        *(moved, SGD(moved.parameters(), lr=0.1, momentum=0.9)),
        *(teacher, SGD(teacher.parameters(), lr=0.1)),
        signal=signal,
        teacher_every=signal.steps,
    )
    state = torch.get_rng_state(), random.getstate()
    judge = rows_of(99)
    if (type(alone), signal) in REFUSED:
        error, why = REFUSED[type(alone), signal]
        later = getattr(signal, "evaluate_on", "") == "next"
        for step in range(signal.steps - 1 + later):
            tutor.step(rows_of(step), judge)
        with pytest.raises(error, match=why):
            tutor.step(rows_of(signal.steps - 1), judge)
        return
    for step in range(STEPS):
        tutor.step(rows_of(step), judge)
    assert same(held(moved), held(alone))
    assert torch.equal(torch.get_rng_state(), state[0])
    assert torch.equal(judge.inputs, rows_of(99).inputs)


class CountsAndUses(Body):
    """Like a schedule that a student keeps as a plain number."""

    number = 0

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        self.number += 1
        return h / self.number


class DrawsFromNumPy(Body):
    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        return h * float(np.random.rand() + 0.5)  # noqa: NPY002 - as people do


class DrawsFromItsOwn(Body):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        return h + 0.1 * torch.randn(h.shape, dtype=h.dtype, generator=self.generator)


class WritesToItself(Body):
    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        self.head.weight.data.clamp_(-0.1, 0.1)
        return h


class ShortEmbedding(Body):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 6, max_norm=0.5)

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:
        return h + self.table((x[:, 0] > 0).long())


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (CountsAndUses, "does not give the same losses .*differ by up to"),
        (DrawsFromItsOwn, "does not give the same losses .* torch's own generator"),
        (DrawsFromNumPy, "draws from NumPy's generator"),
        (WritesToItself, r"writes to its parameters \(head\.weight\)"),
        (ShortEmbedding, r"'table' has max_norm=0\.5"),
    ],
)
def test_a_student_whose_steps_cannot_be_taken_again_is_refused_at_the_first(
    kind, told
) -> None:
    torch.manual_seed(0)
    module, teacher = kind().double(), Ones()
    optimizer = SGD(module.parameters(), lr=0.1)
    with pytest.raises(UnsupportedStudentError, match=told):
        Tutor(
            *(module, optimizer, teacher, SGD(teacher.parameters(), lr=0.1)), signal=Lookahead()
        ).step(rows_of(0), rows_of(1))
    again = kind().double()  # without a signal nothing is taken again
    Tutor(again, SGD(again.parameters(), lr=0.1), Ones()).step(rows_of(0))


class Counted(nn.Module):
    """An objective that counts its calls, in a buffer and a number, and may use them."""

    calls: Tensor

    def __init__(self, share: float) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.number, self.share = 0, share

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.calls += 1
        self.number += 1
        used = 1 + self.share * (self.calls.clone() + self.number)
        return nn.functional.cross_entropy(outputs, targets, reduction="none") * used


@pytest.mark.parametrize("micro_batch", [None, B - 1])
@pytest.mark.parametrize(
    "signal", [Lookahead(), Unrolled(2), Replayed(2), Reversible(2), Implicit(Neumann(1, 0.1))]
)
def test_an_objective_that_is_a_module_is_changed_by_real_steps_alone(
    signal, micro_batch
) -> None:
    torch.manual_seed(0)
    module, teacher, objective = Body().double(), Ones(), Counted(0.0)
    tutor = Tutor(
        *(module, SGD(module.parameters(), lr=0.1, momentum=0.9)),
        *(teacher, SGD(teacher.parameters(), lr=0.1)),
        signal=signal,
        teacher_every=signal.steps,
        objective=objective,
        micro_batch=micro_batch,
    )
    each = 1 if micro_batch is None else 2
    for step in range(1, 5):
        tutor.step(rows_of(step), rows_of(99))
        assert int(objective.calls) == objective.number == step * each


def test_an_objective_that_uses_what_it_changes_is_refused_at_the_first() -> None:
    torch.manual_seed(0)
    module, teacher = Body().double(), Ones()
    optimizer = SGD(module.parameters(), lr=0.1)
    tutor = Tutor(
        *(module, optimizer, teacher, SGD(teacher.parameters(), lr=0.1)),
        signal=Lookahead(),
        objective=Counted(0.1),
    )
    with pytest.raises(UnsupportedStudentError, match="does not give the same losses"):
        tutor.step(rows_of(0), rows_of(1))
