"""Tasks drawn from a labelled image set: N ways, K shots, Q queries."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float32
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage.types import Batch
from tutelage_cli.data.images import ImageSet

_TASK, _CORRUPT, _SUPPORT, _QUERY = 1, 2, 3, 4
"""first part of a seed: keeps the streams of random numbers apart"""


class Episode(NamedTuple):
    """One task; targets are numbers of its classes, 0..ways - 1, and ids the set's own."""

    support: Batch
    """ways * shots examples to learn from, class by class"""
    query: Batch
    """ways * queries other examples of the same classes, class by class"""
    corrupted: Tensor
    """[ways * shots] bool: support examples that were corrupted"""


@dataclass(frozen=True)
class Episodes:
    """The tasks that a set of images gives.

    Classes are drawn without replacement, then shots + queries different images of each. The
    same seed and number give the same task. Inputs are float32 ``(x/255 - mean)/std``.
    """

    images: ImageSet
    """classes without an image do not count"""
    ways: int
    """classes in a task, at least 2"""
    shots: int
    """support examples of each class"""
    queries: int
    """query examples of each class"""
    seed: int
    """of all tasks"""
    mean: Float32[Tensor, "channels"]
    """in 0..1; see :func:`tutelage_cli.data.batches.statistics`"""
    std: Float32[Tensor, "channels"]
    """in 0..1"""
    device: torch.device
    """where the tasks go"""
    corrupted: float = 0.0
    """probability that a support image's pixels are shuffled, each on its own, in 0..1"""

    def __post_init__(self) -> None:
        if self.ways < 2 or min(self.shots, self.queries) < 1:
            raise UsageError(
                f"tasks have {self.ways} ways, {self.shots} shots and {self.queries} queries; "
                "allowed: at least 2, 1 and 1."
            )
        if not 0 <= self.corrupted <= 1:
            raise UsageError(f"corrupted is {self.corrupted:g}; allowed: 0..1.")
        _refuse_few(self.images, self.ways, self.shots + self.queries)

    def task(self, number: int) -> Episode:
        """One task."""
        seed = mixed_seed(_TASK, self.seed, number)
        rows = self._drawn(torch.Generator().manual_seed(seed))
        classes = torch.arange(self.ways)
        support, query = rows[:, : self.shots].flatten(), rows[:, self.shots :].flatten()
        images, corrupted = self._corrupt(
            self.images.images[support], mixed_seed(_CORRUPT, seed)
        )
        learned = classes.repeat_interleave(self.shots)
        asked = classes.repeat_interleave(self.queries)
        return Episode(
            self._batch(images, learned, support, mixed_seed(_SUPPORT, seed)),
            self._batch(self.images.images[query], asked, query, mixed_seed(_QUERY, seed)),
            corrupted.to(self.device),
        )

    def _corrupt(self, images: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        # images, some with their pixels in random order, and which ones
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.rand(len(images), generator=generator) < self.corrupted
        for row in chosen.nonzero().flatten().tolist():
            pixels = images[row].flatten(1)  # a pixel keeps its colour
            order = torch.randperm(pixels.shape[1], generator=generator)
            images[row] = pixels[:, order].view_as(images[row])
        return images, chosen

    def tasks(self, count: int, start: int = 0) -> Iterator[Episode]:
        """Some tasks in turn."""
        for number in range(start, start + count):
            yield self.task(number)

    @cached_property
    def _rows(self) -> list[Tensor]:
        # The rows of every class that has any.
        order = self.images.labels.argsort(stable=True)
        counts = torch.bincount(self.images.labels, minlength=len(self.images.classes))
        return [rows for rows in order.split(counts.tolist()) if len(rows)]

    def _drawn(self, generator: torch.Generator) -> Tensor:
        classes = torch.randperm(len(self._rows), generator=generator)[: self.ways]
        needed = self.shots + self.queries
        return torch.stack([
            rows[torch.randperm(len(rows), generator=generator)[:needed]]
            for rows in (self._rows[place] for place in classes.tolist())
        ])

    def _batch(self, pixels: Tensor, targets: Tensor, rows: Tensor, seed: int) -> Batch:
        mean, std = (values.to(self.device).view(-1, 1, 1) for values in (self.mean, self.std))
        inputs = (pixels.to(self.device).float() / 255 - mean) / std
        ids = self.images.ids[rows]
        return Batch(inputs, targets.to(self.device), ids.to(self.device), seed)


def _refuse_few(images: ImageSet, ways: int, needed: int) -> None:
    counts = torch.bincount(images.labels, minlength=len(images.classes))
    there = int((counts > 0).sum())
    if there < ways:
        raise UsageError(
            f"{images.name} has images of {there} classes; allowed: {ways} and above, one for "
            "each way."
        )
    poor = ((counts > 0) & (counts < needed)).nonzero().flatten()
    if len(poor):
        raise UsageError(
            f"class '{images.classes[int(poor[0])]}' of {images.name} has "
            f"{int(counts[poor[0]])} images, but a task takes {needed} (shots + queries); ask "
            "for fewer, or leave the class out."
        )


_NORMAL_95 = 1.96


class TaskMean(NamedTuple):
    """The mean of a figure over tasks; ``mean - half`` to ``mean + half`` is its interval."""

    mean: float
    half: float
    """half the width of the 95% interval"""
    tasks: int


def mean_and_interval(values: Sequence[float]) -> TaskMean:
    """The mean and ``1.96 std / sqrt(n)``, with the standard deviation over n - 1.

    The interval is about tasks alone: it says nothing of how another training run would fare.
    """
    if len(values) < 2:
        raise UsageError(
            f"{len(values)} tasks give no interval; allowed: 2 and above, the papers take 1000."
        )
    figures = torch.tensor(values, dtype=torch.float64)
    half = _NORMAL_95 * float(figures.std()) / math.sqrt(len(values))
    return TaskMean(float(figures.mean()), half, len(values))
