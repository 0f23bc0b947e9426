"""What is to be done to every image of a batch, and doing it."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64, Shaped
from torch import Tensor

from tutelage.augment.draws import Draws
from tutelage.augment.operations import applied, from_bytes, require_images, to_bytes
from tutelage.augment.spaces import Space

SIGN, SPOT = 101, 102
"""streams of draws that every policy has: which sign, and where to cut"""


class Actions(NamedTuple):
    """Up to S operations for each of B images, in order."""

    operation: Int64[np.ndarray, "B S"]
    """place in the space"""
    level: Int64[np.ndarray, "B S"]
    kept: Bool[np.ndarray, "B S"]
    """whether it is done"""
    negative: Bool[np.ndarray, "B S"]
    """whether its value's sign is turned, where it has one"""
    spot: Float64[np.ndarray, "B S 2"]
    """where a cutout is, in parts of height and width"""


def with_signs(
    draws: Draws,
    operation: Int64[np.ndarray, "B S"],
    level: Int64[np.ndarray, "B S"],
    kept: Bool[np.ndarray, "B S"],
) -> Actions:
    """Actions with signs and spots drawn uniformly.

    Args:
        draws: Where from.
        operation: Which operations.
        level: How strong.
        kept: Whether.

    Returns:
        The actions.
    """
    B, S = operation.shape
    negative = draws.uniform(SIGN, S) < 0.5
    return Actions(
        operation, level, kept, negative, draws.uniform(SPOT, 2 * S).reshape(B, S, 2)
    )


@torch.no_grad()
def performed(
    images: Shaped[Tensor, "B ch H W"], space: Space, actions: Actions
) -> Shaped[Tensor, "B ch H W"]:
    """The images after their actions.

    Args:
        images: uint8, or real numbers in 0..1; of one channel or three.
        space: What the actions are of.
        actions: One row per image.

    Returns:
        Images of the same shape, type and device. Real numbers are rounded to 255ths, except
        of images that nothing but ``identity`` is done to.

    Note: raises ``UsageError`` for other images.
    """
    require_images(images)
    values = space.values(*images.shape[2:])
    operation = np.where(actions.kept, space.places[actions.operation], 0)
    value = values[actions.operation, actions.level, actions.negative.astype(np.int64)]
    changed = to_bytes(images)
    for slot in range(operation.shape[1]):
        changed = applied(changed, operation[:, slot], value[:, slot], actions.spot[:, slot])
    return from_bytes(changed, images, operation)
