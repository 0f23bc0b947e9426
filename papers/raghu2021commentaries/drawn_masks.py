"""Images with their masks, for a recipe's figure."""

import torch
from torch import Tensor

from papers.framework.drawings import Drawing, image_rows, seen_through
from tutelage.teachers.attention_mask import gaussian
from tutelage_cli.data.images import ImageSet

SHOWN = 8
"""images that are drawn"""


def drawn(images: ImageSet, where: Tensor, sigma: float) -> Drawing:
    """The first images of every class above their masks and what is seen of them."""
    rows = by_turns(images.labels)[:SHOWN].sort().values
    rows = rows[images.labels[rows].argsort(stable=True)]
    pixels, (height, width) = images.images[rows], images.images.shape[2:]
    masks = gaussian(where[rows], height, width, sigma)
    made = {
        "image": pixels,
        "mask": seen_through(torch.full_like(pixels[:, :1], 255), masks),
        "seen": seen_through(pixels, masks),
    }
    return image_rows(made, [images.classes[n] for n in images.labels[rows].tolist()])


def by_turns(labels: Tensor) -> Tensor:
    """Rows so that every class comes once before one comes again."""
    classes = torch.arange(int(labels.max()) + 1)
    turn = (labels[:, None] == classes).cumsum(0).gather(1, labels[:, None]).squeeze(1)
    return (turn * len(classes) + labels).argsort()
