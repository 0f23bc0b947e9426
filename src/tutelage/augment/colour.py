"""Colour and sharpness operations on batches, with a strength for every image.

Whole-number arithmetic or correctly rounded operations throughout, one at a time, so that an
image does not depend on the others of its batch, nor on the device.
"""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float32, Float64, Int64, UInt8
from torch import Tensor

from tutelage.augment.casts import as_bytes

Images = UInt8[Tensor, "B ch H W"]
Values = Float64[np.ndarray, "B"]
GREY = (2989.0, 5870.0, 1140.0)
"""ten thousandths of red, green and blue in a grey value"""


def brightness(images: Images, factor: Values) -> Images:
    """``f x``, as by ``adjust_brightness`` of torchvision."""
    return _bytes(images * _over(factor, images))


def contrast(images: Images, factor: Values) -> Images:
    """``f x + (1 - f) m``, m the mean grey value; ``adjust_contrast`` of torchvision."""
    grey = _grey(images) if images.shape[1] == 3 else images
    # a sum of whole numbers in float64 is exact in any order
    mean = grey.sum((1, 2, 3), keepdim=True, dtype=torch.float64).div_(grey[0].numel())
    return _sum(images * _over(factor, images), mean.float(), 1 - factor)


def color(images: Images, factor: Values) -> Images:
    """``f x + (1 - f) g`` with g the grey image, as by ``adjust_saturation`` of torchvision."""
    if images.shape[1] == 1:
        return images
    return _sum(images * _over(factor, images), _grey(images), 1 - factor)


def sharpness(images: Images, factor: Values) -> Images:
    """``f x + (1 - f) s`` with s smoothed, as by ``adjust_sharpness`` of torchvision.

    Smoothed is the mean over 3x3 pixels, with the middle one counted five times; pixels at the
    edge stay.
    """
    if min(images.shape[2:]) < 3:
        return images
    inside = images[:, :, 1:-1, 1:-1]
    smooth = box(images, 3).add_(inside, alpha=4).float().div_(13).round_()
    return _framed(images, _sum(inside, smooth.sub_(inside), 1 - factor), 1)


def blur(images: Images, _: Values) -> Images:
    """The mean of the sixteen pixels two steps away, as by ``ImageFilter.BLUR`` of Pillow."""
    if min(images.shape[2:]) < 5:
        return images
    ring = box(images, 5).sub_(box(images[:, :, 1:-1, 1:-1], 3))
    return _framed(images, ring.add_(8).bitwise_right_shift_(4).to(torch.uint8), 2)


def posterize(images: Images, bits: Values) -> Images:
    """All but the highest bits set to zero."""
    mask = np.minimum(256 - 256 // 2**bits, 255)  # 0b11110000 for four
    return images & _over(mask, images, np.uint8)


def solarize(images: Images, threshold: Values) -> Images:
    """Values from a threshold on inverted."""
    first = np.ceil(threshold.astype(np.float32))  # rounded as torchvision compares
    inverted = images >= _over(first, images, np.uint8)
    return images ^ inverted.view(torch.uint8).neg_()  # with 255 where inverted


def invert(images: Images, _: Values) -> Images:
    """``255 - x``."""
    return images.bitwise_not()


def auto_contrast(images: Images, _: Values) -> Images:
    """Every channel stretched to 0..255, as by ``autocontrast`` of torchvision."""
    low = images.amin((2, 3), keepdim=True).float()
    high = images.amax((2, 3), keepdim=True).float()
    flat = low == high
    scale = (high - low).mul_(1.0 / 255).masked_fill_(flat, 1.0)
    return _bytes((images - low.masked_fill(flat, 0.0)).div_(scale))


def equalize(images: Images, _: Values) -> Images:
    """Every channel's values spread evenly, as by ``ImageOps.equalize`` of Pillow."""
    B, ch, H, W = images.shape
    table = torch.arange(B * ch, device=images.device, dtype=torch.int32) * 256
    place = (images.view(B * ch, H * W) + table[:, None]).flatten()
    counts = torch.bincount(place, minlength=B * ch * 256).view(B * ch, 256)
    lookup = _equalizing(counts, images.view(B * ch, H * W).amax(1).long())
    return lookup.flatten().index_select(0, place).view(images.shape)


def box(images: Images, side: int) -> Tensor:
    """Sums over squares of pixels."""
    H, W = images.shape[2] - side + 1, images.shape[3] - side + 1
    whole = images.to(torch.int16)
    rows = whole[..., :W] + whole[..., 1 : 1 + W]
    for shift in range(2, side):
        rows += whole[..., shift : shift + W]
    total = rows[..., :H, :] + rows[..., 1 : 1 + H, :]
    for shift in range(2, side):
        total += rows[..., shift : shift + H, :]
    return total


def _equalizing(counts: Int64[Tensor, "N 256"], highest: Int64[Tensor, "N"]) -> Tensor:
    # Pillow's: steps of a 255th of what lies below the highest value
    below = counts.sum(1) - counts.gather(1, highest[:, None]).squeeze(1)
    step = below.double().div_(255).floor_()[:, None]
    smaller = F.pad(counts.cumsum(1, dtype=torch.float64), (1, -1))
    spread = smaller.add_((step / 2).floor_()).div_(step).floor_()
    same = torch.arange(256, device=counts.device, dtype=torch.float64)
    return _bytes(torch.where(step == 0, same, spread))


def _grey(images: Images) -> Float32[Tensor, "B 1 H W"]:
    # sums of whole numbers below 2**24 and one division are exact enough for the floor
    red, green, blue = (c.float().mul_(w) for c, w in zip(images.unbind(1), GREY, strict=True))
    return red.add_(green).add_(blue).div_(10_000).floor_().unsqueeze(1)


def _over(values: np.ndarray, images: Tensor, kind: type = np.float32) -> Tensor:
    # one value for each image, beside it
    return torch.from_numpy(values.astype(kind)).view(-1, 1, 1, 1).to(images.device)


def _sum(values: Tensor, others: Tensor, share: Values) -> Tensor:
    # rounded once, as where a multiplication and an addition are one instruction
    return _bytes((others.double().mul_(_over(share, others)) + values).float())


def _bytes(values: Tensor) -> Tensor:
    return as_bytes(values.clamp_(0, 255))


def _framed(images: Images, inside: Tensor, width: int) -> Tensor:
    changed = images.clone()
    changed[:, :, width:-width, width:-width] = inside
    return changed
