"""Attention masks: a Gaussian spot on every image."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tutelage.errors import UsageError
from tutelage.teacher import Teacher
from tutelage.types import Batch, PreparedBatch, as_prepared
from tutelage.validation.ranges import require_above_zero


class AttentionMask(Teacher):
    """Images times a Gaussian of peak 1, whose centre a network of the image chooses.

    ``P = softmax over all pixels of network(x)``, centre ``(ci, cj) = sum_ij P_ij (i, j)``, and
    ``m_ij = exp(-((i - ci)^2 + (j - cj)^2) / (2 sigma^2)) + background``. The mask is part of
    prediction: it acts on held-out images and at test, too. An image whose logits are all minus
    infinity is shown the background alone, and gives no gradient.

    Source: Raghu et al. 2021, Teaching with Commentaries, section 5 and appendix D, which has
    sigma 15 for images of 32x32 and 56x56, 50 for 224x224 and 320x200, and no background.

    Note: normalise images first, so that what is hidden becomes the mean colour.

    Args:
        network: From images [B, ch, H, W] to one logit per pixel, [B, 1, H, W] or [B, H, W],
            such as ``tutelage.models.MaskUNet``.
        sigma: Standard deviation of the spot, in pixels.
        background: How much of an image is seen everywhere.

    Raises:
        UsageError: If sigma is not positive and finite.
    """

    at_test = True

    def __init__(self, network: nn.Module, *, sigma: float, background: float = 0.0) -> None:
        super().__init__()
        self.network = network
        self.sigma = checked_sigma(sigma)
        self.background = background

    def mask(self, images: Float[Tensor, "B ch H W"]) -> Float[Tensor, "B 1 H W"]:
        """The mask of each image.

        Args:
            images: The images.

        Returns:
            Between the background and 1 above it.

        Note: raises ``UsageError`` if the network does not give one logit per pixel.
        """
        centre, seen = expected_place(self._logits(images))
        height, width = images.shape[-2:]
        spot = gaussian(centre, height, width, self.sigma)
        return (torch.where(seen, spot, 0) + self.background).to(images.dtype)

    def centres(self, images: Float[Tensor, "B ch H W"]) -> Float[Tensor, "B 2"]:
        """The centre of each image's spot.

        Args:
            images: The images.

        Returns:
            Row and column in pixels, from 0.

        Note: raises ``UsageError`` if the network does not give one logit per pixel.
        """
        return expected_place(self._logits(images))[0]

    def _logits(self, images: Tensor) -> Tensor:
        # checked and of shape [B, H, W]
        height, width = images.shape[-2:]
        logits: Tensor = self.network(images)
        if logits.shape not in {(len(images), 1, height, width), (len(images), height, width)}:
            raise UsageError(
                f"The mask's network gives {tuple(logits.shape)} for images of "
                f"{tuple(images.shape)}: it must give one logit per pixel."
            )
        return logits.reshape(len(images), height, width)

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Mask a batch."""
        return as_prepared(batch)._replace(inputs=batch.inputs * self.mask(batch.inputs))


def expected_place(
    logits: Float[Tensor, "B H W"],
) -> tuple[Float[Tensor, "B 2"], Bool[Tensor, "B 1 1 1"]]:
    """The mean pixel of a softmax over all pixels."""
    _, height, width = logits.shape
    flat = logits.flatten(1).to(torch.promote_types(logits.dtype, torch.float32))
    seen = (flat > -torch.inf).any(1, keepdim=True)
    p = torch.where(seen, flat, 0).softmax(1).reshape(logits.shape)
    rows, columns = (torch.arange(n, device=p.device, dtype=p.dtype) for n in (height, width))
    # no matrix product: autocast would round pixels to eight bits
    down, right = (p.sum(2) * rows).sum(1), (p.sum(1) * columns).sum(1)
    return torch.stack([down, right], 1), seen.reshape(-1, 1, 1, 1)


def gaussian(
    centre: Float[Tensor, "B 2"], height: int, width: int, sigma: float
) -> Float[Tensor, "B 1 H W"]:
    """A Gaussian of peak 1 around each centre."""
    options = {"device": centre.device, "dtype": centre.dtype}
    down = torch.arange(height, **options) - centre[:, :1]
    right = torch.arange(width, **options) - centre[:, 1:]
    squared = down.square().unsqueeze(2) + right.square().unsqueeze(1)
    return (-squared / (2 * sigma**2)).exp().unsqueeze(1)


def checked_sigma(sigma: float) -> float:
    """Check a standard deviation.

    Note: raises ``UsageError`` if it is not positive and finite.
    """
    require_above_zero("sigma", sigma)
    return sigma
