"""What tests of streamed data share: small data sets, and how batches are compared."""

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from papers.data.streamed import Streamed
from tutelage.types import Batch

WORKERS = [
    {"workers": 0},
    {"workers": 2},
    {"workers": 2, "persistent": True},
]


class Numbered(Dataset[tuple[Tensor, int]]):
    """N examples; the first input of each is its row."""

    def __init__(self, count: int, width: int = 3, classes: int = 3) -> None:
        self.inputs = torch.randn(count, width, generator=torch.Generator().manual_seed(0))
        self.inputs[:, 0] = torch.arange(count)
        self.classes = classes

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        return self.inputs[row], row % self.classes


class Drawing(Numbered):
    """What every example draws: from Python, NumPy, torch, and a generator of its own."""

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        own = np.random.default_rng(torch.initial_seed())
        numpy = np.random.rand()  # noqa: NPY002 - as other people's transforms draw
        numbers = random.random(), numpy, float(torch.rand(())), own.random()
        return torch.tensor(numbers, dtype=torch.float64), row % self.classes


def streamed(examples: Any, size: int = 2, seed: int = 1234, **options: Any) -> Streamed:
    return Streamed(examples, size, seed, torch.device("cpu"), **options)


def same(some: Iterable[Batch], others: Iterable[Batch]) -> bool:
    """Whether the batches are equal to the bit."""
    return all(
        one.seed == other.seed
        and all(torch.equal(a, b) for a, b in zip(one[:3], other[:3], strict=True))
        for one, other in zip(some, others, strict=True)
    )


def ids(batches: Iterable[Batch]) -> list[int]:
    return torch.cat([batch.ids for batch in batches]).tolist()
