"""Every operation by torchvision or Pillow, an image at a time."""

import math

import numpy as np
import torch
import torchvision.transforms.v2.functional as F
from PIL import Image, ImageFilter
from torch import Tensor


def by_others(image: Tensor, name: str, value: float, spot: tuple[float, float]) -> Tensor:
    """One image changed.

    Args:
        image: [ch, H, W] uint8.
        name: The operation.
        value: Its strength, in its own unit.
        spot: Where it cuts, in parts of height and width.
    """
    degrees = math.degrees(math.atan(value))
    calls = {
        "identity": lambda: image,
        "shear_x": lambda: F.affine(
            image, 0.0, [0.0, 0.0], 1.0, [degrees, 0.0], center=[0.0, 0.0]
        ),
        "shear_y": lambda: F.affine(
            image, 0.0, [0.0, 0.0], 1.0, [0.0, degrees], center=[0.0, 0.0]
        ),
        "translate_x": lambda: F.affine(image, 0.0, [int(value), 0.0], 1.0, [0.0, 0.0]),
        "translate_y": lambda: F.affine(image, 0.0, [0.0, int(value)], 1.0, [0.0, 0.0]),
        "rotate": lambda: F.rotate(image, value),
        "brightness": lambda: F.adjust_brightness(image, value),
        "color": lambda: F.adjust_saturation(image, value),
        "contrast": lambda: F.adjust_contrast(image, value),
        "sharpness": lambda: F.adjust_sharpness(image, value),
        "posterize": lambda: F.posterize(image, int(value)),
        "solarize": lambda: image if value > 255 else F.solarize(image, value),
        "auto_contrast": lambda: F.autocontrast(image),
        "equalize": lambda: F.equalize(image),
        "invert": lambda: F.invert(image),
        "flip_lr": lambda: F.horizontal_flip(image),
        "flip_ud": lambda: F.vertical_flip(image),
        "blur": lambda: by_pillow(image, lambda im: im.filter(ImageFilter.BLUR)),
        "cutout": lambda: cut(image, int(value), spot),
    }
    return calls[name]()


def by_pillow(image: Tensor, change) -> Tensor:
    return F.pil_to_tensor(change(F.to_pil_image(image)))


def cut(image: Tensor, side: int, spot: tuple[float, float]) -> Tensor:
    changed = image.clone()
    top, left = (
        int(part * n) - side // 2 for part, n in zip(spot, image.shape[1:], strict=True)
    )
    changed[:, max(top, 0) : max(top + side, 0), max(left, 0) : max(left + side, 0)] = 0
    return changed


def photos(count: int, channels: int = 3, height: int = 32, width: int = 32) -> Tensor:
    """Pieces of a photograph, [count, channels, height, width] uint8."""
    from sklearn.datasets import load_sample_image

    picture = Image.fromarray(load_sample_image("china.jpg"))
    rng, found = np.random.default_rng(0), []
    for _ in range(count):
        left, top = int(rng.integers(0, 300)), int(rng.integers(0, 200))
        piece = picture.crop((left, top, left + 4 * width, top + 4 * height))
        piece = piece.resize((width, height), Image.Resampling.BOX)
        found.append(F.pil_to_tensor(piece if channels == 3 else piece.convert("L")))
    return torch.stack(found)
