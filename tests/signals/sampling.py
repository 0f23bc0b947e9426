"""A table of teachers that sample, each of whose actions can be enumerated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Optimizer

from tutelage.losses.objectives import Normalise, Objective
from tutelage.losses.targets import CrossEntropy
from tutelage.teachers import (
    CombinedTeacher,
    GivenWeights,
    KeepOrDrop,
    LossWeigher,
    SplitSampler,
)
from tutelage.types import Batch, Observation, PreparedBatch, as_prepared

N, D, C = 3, 4, 3
"""examples of a batch, features, classes"""


class ByLogit(nn.Module):
    """Weighs, by a logit of its own for every id."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor([0.3, -0.5, 0.8]))

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
        return self.logits[prepared.ids].sigmoid()


class Chosen(KeepOrDrop):
    """Keeps what a test chose."""

    def __init__(self, rule: Normalise) -> None:
        super().__init__(ByLogit())
        vars(self)["normalise"] = rule
        self.actions: tuple[int, ...] = (1,) * N

    def _probability(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        self.rows = (
            prepared.group if len(prepared.ids) == N else prepared.ids
        )  # all, or the labelled
        return super()._probability(prepared, observation)

    def _kept(self, p: Tensor) -> Tensor:  # noqa: ARG002 - a test chose
        return torch.tensor(self.actions)[self.rows] > 0


class Moved(nn.Module):
    """Samples whether to move an example, and shows it once or twice; a test chose."""

    def __init__(self, copies: Sequence[int] = (1, 1, 1), rule: Normalise = "mean") -> None:
        super().__init__()
        self.normalise = rule
        self.copies = torch.tensor(copies)
        self.logits = nn.Parameter(torch.tensor([0.4, -0.3, 0.6]))
        self.actions: tuple[int, ...] = (1,) * N

    def prepare(self, batch: Batch) -> PreparedBatch:
        action, logits = torch.tensor(self.actions)[: len(batch.ids)], self.logits[batch.ids]
        moved = batch.inputs + 0.7 * action[:, None]
        chosen = torch.where(action > 0, logits, -logits).sigmoid().log()
        rows = torch.arange(len(action)).repeat_interleave(self.copies[: len(action)])
        copy = torch.cat([torch.arange(n) for n in self.copies[: len(action)].tolist()])
        inputs = moved[rows] + 0.3 * copy[:, None]
        return PreparedBatch(inputs, batch.targets[rows], batch.ids[rows], rows, chosen)


class Stretched(Moved):
    """Moves examples, and stretches all of them by a learned factor, which is not sampled."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(1.2))

    def prepare(self, batch: Batch) -> PreparedBatch:
        prepared = super().prepare(batch)
        return prepared._replace(inputs=prepared.inputs * self.factor)


class CopiedSometimes(Moved):
    """Samples how many rows an example gets."""

    def prepare(self, batch: Batch) -> PreparedBatch:
        self.copies = 1 + torch.tensor(self.actions)
        return super().prepare(batch)


class Weighs(nn.Module):
    """Weighs by losses, learned, and by ids; where it is attached, the student sees that."""

    def __init__(self, rule: Normalise, *, attached: bool = False) -> None:
        super().__init__()
        self.normalise, self.attached = rule, attached
        self.slope = nn.Parameter(torch.tensor(0.6))

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        return (self.slope * observation.losses + 0.5 * prepared.ids).sigmoid()


class RowLosses(Weighs):
    """Has the student descend another loss beside its weights."""

    def row_losses(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
        return observation.losses**2 + self.slope * observation.losses


def given(rule: Normalise, *weights: float) -> nn.Module:
    made = GivenWeights(torch.arange(N), torch.tensor(weights))
    vars(made)["normalise"] = rule
    return made


BOTH = tuple(product((0, 1), repeat=N))


def choosing(teacher: nn.Module) -> list[Chosen | Moved]:
    """The parts of a teacher that choose actions."""
    return [m for m in teacher.modules() if isinstance(m, Chosen | Moved)]


def hold(teacher: nn.Module, action: tuple[int, ...]) -> None:
    """Let the teacher choose these actions."""
    parts = choosing(teacher)
    rows = len(action) // max(len(parts), 1)
    for place, part in enumerate(parts):
        part.actions = action[place * rows : (place + 1) * rows]


@torch.no_grad()
def chance(teacher: nn.Module, action: tuple[int, ...]) -> float:
    """The probability of these actions."""
    found, places = 1.0, list(action)
    rows = len(action) // max(len(choosing(teacher)), 1)
    for part in teacher.modules():
        if isinstance(part, SplitSampler):
            q = part.logits.softmax(0)
            found *= float(((1 - q) / (len(q) - 1))[places].prod())
        elif isinstance(part, Drawn):
            found *= float(part.logits.softmax(0)[places].prod())
        elif isinstance(part, Chosen | Moved):
            own, places = torch.tensor(places[:rows]), places[rows:]
            owner = part.keeps if isinstance(part, Chosen) else part
            logits = owner.get_parameter("logits")[:rows]
            found *= float(torch.where(own > 0, logits, -logits).sigmoid().prod())
    return found


def batch_of(_: tuple[int, ...]) -> Batch:
    return Batch(INPUTS[:N], TARGETS[:N], torch.arange(N))


def pair(_: tuple[int, ...]) -> Batch:
    return Batch(INPUTS[:2], TARGETS[:2], torch.arange(2))


def drawn(action: tuple[int, ...]) -> Batch:
    rows = torch.tensor(action)
    return Batch(INPUTS[rows], TARGETS[rows], rows)


def unlabelled(batch: Batch) -> Batch:
    return batch._replace(targets=batch.targets.where(batch.ids != 1, 9))


def soft(batch: Batch) -> Batch:
    labels = 0.1 + 0.7 * torch.eye(C, dtype=torch.float64)
    return batch._replace(targets=labels[batch.targets])


def plain(student: nn.Module) -> Optimizer:
    return SGD(student.parameters(), lr=RATE)


def by_groups(student: nn.Module) -> Optimizer:
    first, *rest = student.parameters()
    groups = [{"params": [first], "lr": RATE / 4}, {"params": rest}]
    return SGD(groups, lr=RATE)


def resting(student: nn.Module) -> Optimizer:
    first, *rest = student.parameters()
    groups = [{"params": [first], "lr": 0.0}, {"params": rest, "maximize": True}]
    return SGD(groups, lr=RATE)


RATE = 1e-5
_made = torch.Generator().manual_seed(3)
INPUTS = torch.randn(6, D, generator=_made, dtype=torch.float64)
TARGETS = torch.tensor([0, 2, 1, 1, 0, 2])
JUDGES = Batch(
    torch.randn(5, D, generator=_made, dtype=torch.float64),
    torch.tensor([2, 0, 1, 1, 2]),
    torch.arange(5),
)


@dataclass(frozen=True)
class Sampling:
    """A teacher, its actions, and how it is trained."""

    teacher: Callable[[], nn.Module]
    actions: Sequence[tuple[int, ...]] = BOTH
    batch: Callable[[tuple[int, ...]], Batch] = batch_of
    optimizer: Callable[[nn.Module], Optimizer] = plain
    objective: Objective = field(default=lambda z, y: cross_entropy(z, y, reduction="none"))
    settings: dict[str, Any] = field(default_factory=dict)
    direct: tuple[str, ...] = ()
    """parameters that change the loss without sampling, too"""


def sampler() -> SplitSampler:
    made = SplitSampler([1] * 3)
    with torch.no_grad():
        made.logits.copy_(torch.tensor([0.2, -0.4, 0.5]))
    return made


class Drawn(nn.Module):
    """Gives the log-probability of which rows were drawn, from six."""

    normalise: ClassVar[Normalise] = "mean"

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.linspace(-0.5, 0.5, 3))

    def prepare(self, batch: Batch) -> PreparedBatch:
        chosen = self.logits.log_softmax(0)[batch.ids]
        return as_prepared(batch)._replace(log_prob=chosen)


TWO = tuple(product((0, 1), repeat=2))
THREE = tuple(product(range(3), repeat=2))
FOUR = tuple(product((0, 1), repeat=4))
MARKED = CrossEntropy(ignored=(9,))
CASES: dict[str, Sampling] = {
    "kept": Sampling(lambda: Chosen("mean")),
    "kept, sum over the batch": Sampling(lambda: Chosen(None)),
    "kept, within examples": Sampling(lambda: Chosen("group")),
    "kept, soft labels": Sampling(lambda: Chosen("mean"), batch=lambda a: soft(batch_of(a))),
    "kept, without some labels": Sampling(
        lambda: Chosen("mean"), batch=lambda a: unlabelled(batch_of(a)), objective=MARKED
    ),
    "kept, sum, without some labels": Sampling(
        lambda: Chosen(None), batch=lambda a: unlabelled(batch_of(a)), objective=MARKED
    ),
    "kept, a row at a time": Sampling(lambda: Chosen("mean"), settings={"micro_batch": 1}),
    "kept, rates by group": Sampling(lambda: Chosen("mean"), optimizer=by_groups),
    "kept, maximised and resting": Sampling(lambda: Chosen("mean"), optimizer=resting),
    "moved": Sampling(Moved),
    "moved, two rows each": Sampling(lambda: Moved((2, 2, 2))),
    "moved, unequal rows": Sampling(lambda: Moved((1, 2, 3))),
    "moved, unequal rows, sum": Sampling(lambda: Moved((1, 2, 3), None)),
    "moved, unequal rows, within": Sampling(lambda: Moved((1, 2, 3), "group")),
    "moved, rows sampled": Sampling(CopiedSometimes),
    "moved and stretched": Sampling(Stretched, direct=("factor",)),
    "moved, fixed weights": Sampling(
        lambda: CombinedTeacher(Moved(), given("mean", 1.0, 3.0, 0.5))
    ),
    "moved, fixed weights, one 0": Sampling(
        lambda: CombinedTeacher(Moved(), given("mean", 1.0, 0.0, 3.0))
    ),
    "moved, fixed weights, sum": Sampling(
        lambda: CombinedTeacher(Moved(), given(None, 1.0, 0.0, 3.0))
    ),
    "moved, fixed weights, rows": Sampling(
        lambda: CombinedTeacher(Moved((1, 2, 3)), given("group", 1.0, 0.0, 3.0))
    ),
    "moved, learned weights": Sampling(
        lambda: CombinedTeacher(Moved(), Weighs("mean")), TWO, pair, direct=("weighs.slope",)
    ),
    "moved, learned weights, sum": Sampling(
        lambda: CombinedTeacher(Moved((2, 1, 1)), Weighs(None)),
        TWO,
        pair,
        direct=("weighs.slope",),
    ),
    "moved, loss weigher": Sampling(
        lambda: CombinedTeacher(Moved(), seeded(lambda: LossWeigher(width=2))),
        TWO,
        pair,
        direct=("weighs",),
    ),
    "moved, attached weights": Sampling(
        lambda: CombinedTeacher(Moved(), Weighs("mean", attached=True)),
        TWO,
        pair,
        direct=("weighs.slope",),
    ),
    "moved, attached weights, sum": Sampling(
        lambda: CombinedTeacher(Moved(), Weighs(None, attached=True)),
        TWO,
        pair,
        direct=("weighs.slope",),
    ),
    "moved, attached weights, within": Sampling(
        lambda: CombinedTeacher(Moved((1, 2, 2)), Weighs("group", attached=True)),
        TWO,
        pair,
        direct=("weighs.slope",),
    ),
    "moved, row losses": Sampling(
        lambda: CombinedTeacher(Moved(), RowLosses("mean")), TWO, pair, direct=("weighs.slope",)
    ),
    "moved and kept": Sampling(lambda: CombinedTeacher(Moved(), Chosen("mean")), FOUR, pair),
    "drawn": Sampling(sampler, THREE, drawn),
    "drawn, fixed weights": Sampling(
        lambda: CombinedTeacher(Drawn(), given("mean", 1.0, 0.0, 3.0)), THREE, drawn
    ),
    "drawn, learned weights": Sampling(
        lambda: CombinedTeacher(Drawn(), Weighs("mean")), THREE, drawn, direct=("weighs.slope",)
    ),
    "drawn, without some labels": Sampling(
        Drawn, THREE, lambda a: unlabelled(drawn(a)), objective=MARKED
    ),
}


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make()
