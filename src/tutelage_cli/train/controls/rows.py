"""Training examples and targets of controls: with checked examples, subsets, repetitions."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from tutelage.data.order import BatchRequest
from tutelage.types import Batch
from tutelage_cli.data.batches import Batches
from tutelage_cli.data.features.feature_batches import FeatureBatches
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.in_memory import InMemory
from tutelage_cli.data.text.set_batches import SetBatches
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.train.plan import BatchSource
from tutelage_cli.train.texts import Data

AnyBatches = TypeVar("AnyBatches", Batches, SetBatches, FeatureBatches)


def concatenated(train: Data, checked: Data) -> Data:
    """Training examples and, after them, the checked ones, under ids of their own."""
    first = int(train.ids.max()) + 1 if len(train) else 0
    ids = torch.cat([train.ids, first + torch.arange(len(checked))])
    labels = torch.cat([train.labels, checked.labels])
    if isinstance(train, TextSet) and isinstance(checked, TextSet):
        length = max(part.tokens.shape[2] for part in (train, checked))
        tokens = [F.pad(p.tokens, (0, length - p.tokens.shape[2])) for p in (train, checked)]
        sides = tuple(a + b for a, b in zip(train.sides, checked.sides, strict=True))
        return replace(
            train, sides=sides, tokens=torch.cat(tokens), labels=labels, ids=ids, called=()
        )
    if isinstance(train, FeatureSet) and isinstance(checked, FeatureSet):
        features = torch.cat([train.features, checked.features])
        return replace(
            train, features=features, labels=labels, ids=ids, sources=(), of=None, by=""
        )
    assert isinstance(train, ImageSet)
    assert isinstance(checked, ImageSet)
    images = torch.cat([train.images, checked.images])
    return replace(train, images=images, labels=labels, ids=ids, sources=())


def batches_like(like: AnyBatches, examples: Data, *, alone: bool = False) -> AnyBatches:
    """Batches of other examples, made as those of the training set are."""
    if len(examples) == 1 and not alone:
        examples = examples.rows(torch.zeros(2, dtype=torch.long))
    if isinstance(like, Batches):
        assert isinstance(examples, ImageSet)
        return replace(like, images=examples)
    if isinstance(like, FeatureBatches):
        assert isinstance(examples, FeatureSet)
        return replace(like, features=examples)
    assert isinstance(examples, TextSet)
    return replace(like, texts=examples)


@dataclass(frozen=True)
class Targeted(InMemory):
    """Batches under other targets."""

    inner: InMemory
    targets: Tensor
    """[N] or [N, C], in the order of the examples"""

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Examples in a batch."""
        return self.inner.size

    @property
    def seed(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of every order and draw."""
        return self.inner.seed

    @property
    def count(self) -> int:
        """N."""
        return self.inner.count

    def batch(self, request: BatchRequest) -> Batch:
        """One batch."""
        unchanged = self.inner.batch(request)
        return unchanged._replace(
            targets=self.targets[request.rows].to(unchanged.targets.device)
        )


@dataclass(frozen=True)
class Repeated:
    """Batches over and over again, in epochs of another length: a budget of student steps."""

    inner: BatchSource
    length: int
    """batches in an epoch"""

    def __len__(self) -> int:
        return self.length

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch; the examples are shuffled anew when all have been seen."""
        place, end = number * self.length + start, (number + 1) * self.length
        while place < end:
            whole, within = divmod(place, len(self.inner))
            for batch in self.inner.epoch(whole, within):
                if place == end:
                    return
                yield batch
                place += 1
