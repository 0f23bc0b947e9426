"""Operations drawn for every image of a batch, and their application."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64, Shaped
from torch import Tensor

from tutelage.augment.draws import ExampleRandom
from tutelage.augment.operations import applied, from_bytes, require_images, to_bytes
from tutelage.augment.spaces import Space
from tutelage.errors import UsageError

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
    draws: ExampleRandom,
    operation: Int64[np.ndarray, "B S"],
    level: Int64[np.ndarray, "B S"],
    kept: Bool[np.ndarray, "B S"],
) -> Actions:
    """Actions with random signs and cutout positions."""
    B, S = operation.shape
    negative = draws.uniform(SIGN, S) < 0.5
    return Actions(
        operation, level, kept, negative, draws.uniform(SPOT, 2 * S).reshape(B, S, 2)
    )


@torch.no_grad()
def performed(
    images: Shaped[Tensor, "B ch H W"], space: Space, actions: Actions
) -> Shaped[Tensor, "B ch H W"]:
    """Apply actions, one row per image, to images of one channel or three: uint8, or in 0..1.

    Real numbers are rounded to 255ths, except of images that nothing but ``identity`` is done
    to. Other images are a ``UsageError``.
    """
    require_images(images)
    values = space.values(*images.shape[2:])
    operation = np.where(actions.kept, space.places[actions.operation], 0)
    value = values[actions.operation, actions.level, actions.negative.astype(np.int64)]
    changed = to_bytes(images)
    for slot in range(operation.shape[1]):
        changed = applied(changed, operation[:, slot], value[:, slot], actions.spot[:, slot])
    return from_bytes(changed, images, operation)


def performed_on(
    inputs: Shaped[Tensor, "B ch H W"],
    space: Space,
    actions: Actions,
    mean: Sequence[float],
    std: Sequence[float],
) -> Shaped[Tensor, "B ch H W"]:
    """Apply actions to normalised images, ``(x - mean) / std`` of x in 0..1.

    Without a mean, inputs are x itself. Images come back normalised in the same way, to the bit
    as they were where nothing is done. Inputs that are no such images are a ``UsageError``.
    """
    if not mean:
        return performed(inputs, space, actions)
    if inputs.ndim == 4 and inputs.shape[1] != len(mean):
        raise UsageError(
            f"mean and std are of {len(mean)} channels, but the images have {inputs.shape[1]}."
        )
    shape = -1, 1, 1
    m, s = (inputs.new_tensor(v).view(shape) for v in (mean, std))
    changed = (performed(inputs * s + m, space, actions) - m) / s
    touched = torch.from_numpy(actions.kept.any(1)).to(inputs.device)
    return torch.where(touched.view(-1, 1, 1, 1), changed, inputs)


def require_statistics(
    mean: Sequence[float], std: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Check a mean in 0..1 and a standard deviation above 0 for each channel."""
    if len(mean) != len(std) or not all(0 < value < float("inf") for value in std):
        raise ValueError(f"mean {list(mean)} and std {list(std)} do not go together.")
    return [float(v) for v in mean], [float(v) for v in std]
