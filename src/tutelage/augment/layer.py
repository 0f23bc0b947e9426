"""Standard augmentation as a module, the first layer of a student."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tutelage.augment.draws import random_seed
from tutelage.augment.standard import crop_and_flip, cutout
from tutelage.errors import UsageError


class StandardAugmentation(nn.Module):
    """Random crop, flip, normalisation and cutout; normalisation alone in evaluation mode.

    For teachers that change images which must not be cropped yet: batches hold images in 0..1,
    the teacher changes them, and this layer does the rest, at steps without the teacher, too.
    It draws from torch's generator, so that a step that is recomputed sees the same.

    Args:
        mean: Of every channel, in 0..1.
        std: Of every channel, in 0..1.
        pad: Black pixels on every side before cropping.
        flip: Whether to mirror left to right with probability 1/2.
        side: Of the square that is cut out, pixels; 0 for none.

    Raises:
        UsageError: If ``mean`` and ``std`` are not of as many channels, or a deviation is not
            above 0.
    """

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        *,
        pad: int = 4,
        flip: bool = True,
        side: int = 0,
    ) -> None:
        super().__init__()
        if len(mean) != len(std) or not all(value > 0 for value in std):
            raise UsageError(
                f"mean {list(mean)} and std {list(std)} do not go together: give one of each "
                "for every channel, std above 0."
            )
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1))
        self.pad, self.flip, self.side = pad, flip, side

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """Augment in training mode, and normalise."""
        if not self.training:
            return (images - self.mean) / self.std
        seed = random_seed()
        moved = crop_and_flip(images, seed=seed, pad=self.pad, mode="zeros", flip=self.flip)
        inputs = (moved - self.mean) / self.std
        return cutout(inputs, seed=seed, side=self.side) if self.side else inputs
