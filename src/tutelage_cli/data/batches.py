"""Minibatches of images: shuffled, augmented, normalised, and the same again on request."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float32
from torch import Tensor

from tutelage.data.order import BatchRequest
from tutelage.errors import UsageError
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.in_memory import OfSet

_STD_FLOOR = 1e-3


@dataclass(frozen=True)
class Batches(OfSet):
    """The minibatches of a data set of N images.

    Inputs are float32 ``(x/255 - mean)/std``. A last batch of one example is merged into the
    one before it, since batch normalisation cannot treat a single example.
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

    @property
    def examples(self) -> ImageSet:
        """The images."""
        return self.images

    def inputs(self, request: BatchRequest) -> Tensor:
        """The inputs of one batch."""
        pixels = self.images.images[request.rows].to(self.device)
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
    counts = torch.stack([
        torch.bincount(images.images[:, c].flatten(), minlength=256) for c in range(channels)
    ]).double()
    share = counts / counts.sum(1, keepdim=True)
    mean = share @ values
    variance = (share * (values - mean[:, None]) ** 2).sum(1)
    return mean.float(), variance.sqrt().clamp(min=_STD_FLOOR).float()
