"""Minibatches of images: shuffled, augmented, normalised, and the same again on request."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float32
from torch import Tensor

from tutelage.data.images import ImageSet
from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage.records import Batch

_ORDER, _EPOCH, _DRAW, _WHOLE = 1, 2, 3, 4
"""first part of a seed: keeps the streams of random numbers apart"""
_STD_FLOOR = 1e-3


@dataclass(frozen=True)
class Batches:
    """The minibatches of a data set of N images.

    Inputs are float32 ``(x/255 - mean)/std``. A last batch of one example is merged into the
    one before it, since batch normalisation cannot treat a single example.

    Raises:
        UsageError: If there are no images, or the size is below 1.
    """

    images: ImageSet
    size: int
    """examples in a batch"""
    seed: int
    """of every order, draw and augmentation"""
    mean: Tensor
    """[C], in 0..1"""
    std: Tensor
    """[C], in 0..1"""
    augment: Callable[[Tensor, int], Tensor] | None
    """from uint8 [B, C, H, W] and a seed to the same type; None to leave images as they are"""
    device: torch.device
    """where the batches go"""

    def __post_init__(self) -> None:
        """Check that there is at least one batch.

        Raises:
            UsageError: See the class.
        """
        if not len(self.images):
            raise UsageError(f"{self.images.name} has no images left to draw batches from.")
        if self.size < 1:
            raise UsageError(f"the batch size is {self.size}; allowed: 1 and above.")

    def __len__(self) -> int:
        return len(_spans(len(self.images), self.size))

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Every example once, in an order of this epoch's own.

        Args:
            number: The epoch, from 0; the same one gives the same batches again.
            start: The batch to begin with; those before it are skipped.

        Yields:
            Batches ``start``..``len(self) - 1``.
        """
        generator = torch.Generator().manual_seed(mixed_seed(_ORDER, self.seed, number))
        order = torch.randperm(len(self.images), generator=generator)
        for place, span in list(enumerate(_spans(len(self.images), self.size)))[start:]:
            yield self._batch(order[span], mixed_seed(_EPOCH, self.seed, number, place))

    def draw(self, number: int) -> Batch:
        """A batch drawn uniformly, without the same example twice.

        Args:
            number: Which draw; the same one gives the same batch again.

        Returns:
            min(size, N) examples.
        """
        seed = mixed_seed(_DRAW, self.seed, number)
        generator = torch.Generator().manual_seed(mixed_seed(_ORDER, seed))
        order = torch.randperm(len(self.images), generator=generator)
        return self._batch(order[: self.size], seed)

    def whole(self, size: int) -> Iterator[Batch]:
        """Every example once, in the order of the set and never augmented.

        Args:
            size: Examples in a batch.

        Yields:
            The batches; a last one of a single example is merged into the one before it.
        """
        for place, span in enumerate(_spans(len(self.images), size)):
            rows = torch.arange(span.start, span.stop)
            yield self._plain(rows, mixed_seed(_WHOLE, self.seed, place))

    def _batch(self, rows: Tensor, seed: int) -> Batch:
        if self.augment is None:
            return self._plain(rows, seed)
        chosen = self.images.rows(rows)
        pixels = self.augment(chosen.images.to(self.device), seed)
        return self._normalised(chosen, pixels, seed)

    def _plain(self, rows: Tensor, seed: int) -> Batch:
        chosen = self.images.rows(rows)
        return self._normalised(chosen, chosen.images.to(self.device), seed)

    def _normalised(self, chosen: ImageSet, pixels: Tensor, seed: int) -> Batch:
        mean, std = (values.to(self.device).view(-1, 1, 1) for values in (self.mean, self.std))
        inputs = (pixels.float() / 255 - mean) / std
        return Batch(inputs, chosen.labels.to(self.device), chosen.ids.to(self.device), seed)


def statistics(images: ImageSet) -> tuple[Float32[Tensor, "C"], Float32[Tensor, "C"]]:
    """Mean and standard deviation of every channel over all pixels of all images.

    Args:
        images: N images; N at least 1.

    Returns:
        Both in units of 0..1; the standard deviation (over n, not n - 1) is at least 1e-3.

    Raises:
        UsageError: If there are no images.
    """
    if not len(images):
        raise UsageError(f"{images.name} has no images to take the mean of.")
    values = torch.arange(256, dtype=torch.float64) / 255
    channels = images.images.shape[1]
    counts = torch.stack([
        torch.bincount(images.images[:, c].flatten(), minlength=256) for c in range(channels)
    ]).double()
    share = counts / counts.sum(1, keepdim=True)
    mean = share @ values
    variance = (share * (values - mean[:, None]) ** 2).sum(1)
    return mean.float(), variance.sqrt().clamp(min=_STD_FLOOR).float()


def _spans(count: int, size: int) -> list[slice]:
    spans = [slice(start, min(start + size, count)) for start in range(0, count, size)]
    if len(spans) > 1 and size > 1 and count % size == 1:
        spans[-2:] = [slice(spans[-2].start, count)]
    return spans
