"""Minibatches: shuffled, collated by kind of examples, and the same again on request."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic

import torch
from jaxtyping import Float32
from torch import Tensor

from tutelage.data.order import BatchRequest, batch_count, in_order, random_rows, shuffled
from tutelage.errors import UsageError
from tutelage.types import Batch
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Set
from tutelage_cli.data.mapped import chunks

_STD_FLOOR = 1e-3


class SeededBatches(ABC):
    """The minibatches of N examples, the same again for the same seed."""

    size: int
    """examples in a batch"""
    seed: int
    """of every order and draw"""

    @property
    @abstractmethod
    def count(self) -> int:
        """N."""

    @abstractmethod
    def batch(self, request: BatchRequest) -> Batch:
        """One batch."""

    def __len__(self) -> int:
        return batch_count(self.count, self.size)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Every example once, in an order of this epoch's own."""
        requests = shuffled(torch.arange(self.count), self.size, self.seed, number)
        yield from map(self.batch, islice(requests, start, None))

    def draw(self, number: int) -> Batch:
        """A batch drawn uniformly, without the same example twice."""
        return self.batch(random_rows(self.count, self.size, self.seed, number))

    def whole(self, size: int) -> Iterator[Batch]:
        """Every example once, in the order of the set and never augmented."""
        yield from map(self.batch, in_order(self.count, size, self.seed))


@dataclass(frozen=True)
class Batches(SeededBatches, Generic[Set]):
    """The minibatches of a data set of N examples.

    A last batch of one example is merged into the one before it, since batch normalisation
    cannot treat a single example.
    """

    examples: Set
    size: int
    """examples in a batch"""
    seed: int
    """of every order, draw and augmentation"""
    collate: Callable[[Set, BatchRequest, torch.device], Tensor]
    """the inputs of one batch"""
    device: torch.device
    """where the batches go"""

    def __post_init__(self) -> None:
        """Check that there is at least one batch."""
        if not self.count:
            examples = self.examples
            raise UsageError(
                f"{examples.name} has no {examples.example}s left to draw batches from."
            )
        if self.size < 1:
            raise UsageError(f"the batch size is {self.size}; allowed: 1 and above.")

    @property
    def count(self) -> int:
        """N."""
        return len(self.examples)

    def batch(self, request: BatchRequest) -> Batch:
        """One batch."""
        examples, on, rows = self.examples, self.device, request.rows
        labels, ids = examples.labels[rows].to(on), examples.ids[rows].to(on)
        return Batch(self.collate(examples, request, on).to(on), labels, ids, request.seed)


@dataclass(frozen=True)
class CollateImages:
    """Collates images to float32 [B, C, H, W], augmented and ``(x/255 - mean)/std``."""

    mean: Tensor
    """[C], in 0..1"""
    std: Tensor
    """[C], in 0..1"""
    augment: Callable[[Tensor, int], Tensor] | None = None
    """from uint8 [B, C, H, W] and a seed to the same type; None to leave images as they are"""

    def __call__(
        self, examples: ImageSet, request: BatchRequest, device: torch.device
    ) -> Tensor:
        """The inputs of one batch."""
        pixels = examples.images[request.rows].to(device)
        if self.augment is not None and not request.plain:
            pixels = self.augment(pixels, request.seed)
        return normalised(pixels, self.mean, self.std)


def normalised(pixels: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """``(x/255 - mean)/std``."""
    mean, std = (values.to(pixels.device).view(-1, 1, 1) for values in (mean, std))
    return (pixels.float() / 255 - mean) / std


def statistics(images: ImageSet) -> tuple[Float32[Tensor, "C"], Float32[Tensor, "C"]]:
    """Mean and standard deviation of every channel over all pixels of all images."""
    if not len(images):
        raise UsageError(f"{images.name} has no images to take the mean of.")
    values = torch.arange(256, dtype=torch.float64) / 255
    channels = images.images.shape[1]
    counts = torch.zeros(channels, 256, dtype=torch.int64)
    for part in chunks(images.images):
        for c in range(channels):
            counts[c] += torch.bincount(part[:, c].flatten(), minlength=256)
    share = counts.double() / counts.sum(1, keepdim=True)
    mean = share @ values
    variance = (share * (values - mean[:, None]) ** 2).sum(1)
    return mean.float(), variance.sqrt().clamp(min=_STD_FLOOR).float()
