"""Data loops: how many rows come, what is in them, and in whose memory."""

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tests.fuzz.engine.objectives import C, Objective
from tests.fuzz.engine.students import D
from tutelage.types import Batch

N, M, B = 12, 7, 5
"""training rows, held-out rows, rows of a batch"""


class Rows(NamedTuple):
    """What a step sees."""

    inputs: Tensor
    targets: Tensor
    ids: Tensor

    def fresh(self, dtype: torch.dtype) -> "Rows":
        """With memory of its own."""
        return Rows(*(t.to(dtype) if t.is_floating_point() else t.clone() for t in self))


class Data(NamedTuple):
    """A data loop."""

    size: Callable[[int], int] = lambda _: B
    spoil: Callable[[int, Tensor], Tensor] = lambda _, x: x
    memory: str = "fresh"
    """fresh; buffer: one for all batches; numpy: the same, shared with NumPy; edited: written
    over after the step; strided: a view that is not contiguous"""
    rate: float = 1.0
    """factor of the learning rate"""
    finite: bool = True
    broken: Callable[[Rows], Rows] | None = None
    """makes a batch that has to be refused by name"""


def infinite(step: int, x: Tensor) -> Tensor:
    return torch.where(torch.arange(len(x))[:, None] == 0, torch.inf, x) if step == 1 else x


def overflowing(step: int, x: Tensor) -> Tensor:
    return x * 1e200 if step == 1 else x


def uneven(step: int) -> int:
    return (5, 3, 6, 2, 4)[step % 5]


def last_of_one(step: int) -> int:
    return 1 if step % 3 == 2 else B


def short_ids(rows: Rows) -> Rows:
    return rows._replace(ids=rows.ids[:-1])


def negative_ids(rows: Rows) -> Rows:
    return rows._replace(ids=rows.ids - N)


def ids_beyond(rows: Rows) -> Rows:
    return rows._replace(ids=rows.ids + N)


def short_targets(rows: Rows) -> Rows:
    return rows._replace(targets=rows.targets[:-1])


def square_ids(rows: Rows) -> Rows:
    return rows._replace(ids=rows.ids[:, None])


def fractional_ids(rows: Rows) -> Rows:
    return rows._replace(ids=rows.ids.double())


DATA: Mapping[str, Data] = {
    "fresh": Data(),
    "one buffer": Data(memory="buffer"),
    "numpy's buffer": Data(memory="numpy"),
    "edited afterwards": Data(memory="edited"),
    "strided": Data(memory="strided"),
    "uneven": Data(uneven),
    "uneven buffer": Data(uneven, memory="buffer"),
    "last of one": Data(last_of_one),
    "batches of one": Data(lambda _: 1),
    "large inputs": Data(spoil=lambda _, x: x * 1e4 + 2e4, rate=3e-10),
    "infinite input": Data(spoil=infinite, finite=False),
    "overflowing": Data(spoil=overflowing, finite=False),
    "ids too short": Data(broken=short_ids),
    "ids negative": Data(broken=negative_ids),
    "ids beyond": Data(broken=ids_beyond),
    "ids in a column": Data(broken=square_ids),
    "ids with fractions": Data(broken=fractional_ids),
    "targets too short": Data(broken=short_targets),
}


class Source:
    """The rows of every step of one situation; the same again for the same seed."""

    def __init__(self, data: Data, objective: Objective, seed: int) -> None:
        self.data, self.seed = data, seed
        made = torch.Generator().manual_seed(seed)
        self.train = self._rows(made, N, objective)
        self.held_out = self._rows(made, M, objective)

    def _rows(self, made: torch.Generator, count: int, objective: Objective) -> Rows:
        x = torch.randn(count, D, generator=made, dtype=torch.float64)
        y = torch.arange(count) % C
        return Rows(x, objective.targets(y, made), torch.arange(count))

    def rows(self, step: int) -> Rows:
        """What a step sees, in memory of its own."""
        drawn = random.Random(self.seed * 1009 + step).sample(range(N), self.data.size(step))
        x, y, ids = (t[torch.tensor(drawn)] for t in self.train)
        rows = Rows(self.data.spoil(step, x), y, ids)
        return rows if self.data.broken is None else self.data.broken(rows)

    def judging(self) -> Rows:
        """What judges."""
        return Rows(*(t.clone() for t in self.held_out))


def in_numpy(rows: Tensor) -> Tensor:
    """In memory of NumPy's; bfloat16, of which it knows nothing, as it is."""
    if rows.dtype == torch.bfloat16:
        return rows
    return torch.from_numpy(np.zeros(rows.shape, rows.numpy().dtype))


class Delivery:
    """Hands rows over as a data loop does, in memory that may be used again."""

    def __init__(self, source: Source, dtype: torch.dtype) -> None:
        self.source, self.dtype = source, dtype
        self.buffers: dict[tuple, Rows] = {}
        self.last: Batch | None = None

    def batch(self, step: int) -> Batch:
        """The batch of a step."""
        memory, rows = self.source.data.memory, self.source.rows(step).fresh(self.dtype)
        if memory == "edited":
            self.edit()
        if memory in ("buffer", "numpy"):
            rows = self._in_buffer(rows, memory == "numpy")
        if memory == "strided":
            rows = rows._replace(inputs=rows.inputs.T.contiguous().T)
        self.last = Batch(*rows)
        return self.last

    def edit(self) -> None:
        """Write over the batch before, whose step is done."""
        if self.last is not None:
            self.last.inputs.fill_(9.0)
            self.last.ids.zero_()
            self.last.targets.zero_()

    def held_out(self) -> Batch:
        """The batch that judges."""
        return Batch(*self.source.judging().fresh(self.dtype))

    def _in_buffer(self, rows: Rows, numpy: bool) -> Rows:
        most = Rows(*(torch.zeros(N, *t.shape[1:], dtype=t.dtype) for t in rows))
        key = tuple(t.shape[1:] for t in rows)
        if key not in self.buffers:
            self.buffers[key] = Rows(*map(in_numpy, most)) if numpy else most
        views = Rows(*(t[: len(own)] for t, own in zip(self.buffers[key], rows, strict=True)))
        for view, own in zip(views, rows, strict=True):
            view.copy_(own)
        return views
