"""Pretrained image networks without their last layer, and students made of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from tutelage.errors import UsageError, in_one_line
from tutelage.storage.checkpoint import DAMAGE

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""of the channels of ImageNet's training images, in 0..1: what torchvision's weights expect"""
LEAST, NATIVE, STEP = 96, 224, 32
"""pixels a side: smaller images are enlarged to ``LEAST``, larger ones than ``NATIVE`` reduced
to it, and those between brought to a multiple of ``STEP``"""


class ImageSizes(NamedTuple):
    """Which sizes of images a network takes."""

    least: int = LEAST
    most: int = NATIVE
    step: int = STEP

    def of(self, size: int) -> int:
        """The side that images whose longer side is ``size`` are brought to, pixels."""
        return min(self.most, max(self.least, -(-size // self.step) * self.step))


class Backbone(NamedTuple):
    """A network from images to features, with what it expects of images."""

    network: nn.Module
    """from [B, C, S, S] to [B, F]"""
    width: int
    """F"""
    name: str
    mean: tuple[float, ...] | None = IMAGENET_MEAN
    """of its training images, by channel in 0..1; None where images stay as the data's own mean
    and deviation leave them"""
    std: tuple[float, ...] | None = IMAGENET_STD
    """their deviation, in 0..1"""
    sides: ImageSizes | None = ImageSizes()
    """None where images stay at their own size"""


class PretrainedTransform(nn.Module):
    """Brings images to the channels, statistics and size of pretrained weights.

    Args:
        mean: [C] that was taken off the images' channels, in 0..1.
        std: [C] by which they were divided, in 0..1.
        backbone: What the images are for.
        size: Their longer side, in pixels.
    """

    def __init__(self, mean: Tensor, std: Tensor, backbone: Backbone, size: int) -> None:
        super().__init__()
        assert backbone.mean is not None
        assert backbone.std is not None
        theirs, spread = (torch.tensor(values) for values in (backbone.mean, backbone.std))
        shape = (1, len(theirs), 1, 1)
        self.register_buffer("scale", (std / spread).view(shape), persistent=False)
        self.register_buffer("shift", ((mean - theirs) / spread).view(shape), persistent=False)
        self.side = None if backbone.sides is None else backbone.sides.of(size)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B K S S"]:
        """Normalised images, grey or coloured, as the network was trained on."""
        ready = images * self.get_buffer("scale") + self.get_buffer("shift")
        if self.side is None or ready.shape[2:] == (self.side, self.side):
            return ready
        smaller = max(ready.shape[2:]) > self.side
        return F.interpolate(ready, (self.side, self.side), mode="bilinear", antialias=smaller)


class Pretrained(nn.Module):
    """A student: a backbone behind its ``PretrainedTransform``, and a new linear layer."""

    def __init__(
        self, backbone: Backbone, classes: int, mean: Tensor, std: Tensor, size: int
    ) -> None:
        super().__init__()
        self.inputs = nn.Identity()
        if backbone.mean is not None:
            self.inputs = PretrainedTransform(mean, std, backbone, size)
        self.backbone = backbone.network
        self.fc = nn.Linear(backbone.width, classes)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B K"]:
        """The logits."""
        return self.fc(self.backbone(self.inputs(images)))


def headless(network: nn.Module, name: str) -> tuple[nn.Module, int, str]:
    """Put an identity in the place of a network's last linear layer.

    Returns the network, which is changed, the width of what that layer took, and its name.
    """
    linear = [
        (place, part) for place, part in network.named_modules() if isinstance(part, nn.Linear)
    ]
    if not linear or not linear[-1][0]:
        raise UsageError(
            f"{name} does not end in a linear layer that a new one could take the place of: "
            "give another student."
        )
    place, last = linear[-1]
    network.set_submodule(place, nn.Identity(), strict=True)
    return network, last.in_features, place


def read_state(file: Path) -> Mapping[str, Tensor]:
    """The weights in a file, by name, without the prefix ``module.``.

    It is a ``.safetensors`` file, or one that ``torch.save`` wrote of a state dict, alone or
    below ``state_dict`` or ``model``; else it is a ``UsageError``.
    """
    if not file.is_file():
        raise UsageError(
            f"there is no file {file} of weights; give a .safetensors or .pt file."
        )
    found: Any = None
    try:
        if file.suffix == ".safetensors":
            found = load_file(file)
        else:
            found = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, SafetensorError, *DAMAGE) as error:
        reason = in_one_line(error)
        raise UsageError(
            f"{file} cannot be read as weights: {reason:.300}; give a state dict, saved by "
            "torch.save or safetensors."
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    if not isinstance(found, Mapping) or not any(isinstance(v, Tensor) for v in found.values()):
        raise UsageError(f"{file} holds no weights by name: save model.state_dict().")
    return {
        str(key).removeprefix("module."): value
        for key, value in found.items()
        if isinstance(value, Tensor)
    }


def load_weights(
    network: nn.Module,
    state: Mapping[str, Tensor],
    *,
    last: str,
    file: Path | str,
    name: str,
    unused: Callable[[str], bool] = lambda _: False,
) -> None:
    """Load weights into a network whose last layer was taken off.

    The weights of that layer, and those that ``unused`` names, are left away. It is a
    ``UsageError`` if others are missing, are too many, or have other shapes.
    """
    kept = {
        key: value
        for key, value in state.items()
        if not key.startswith(f"{last}.") and not unused(key)
    }
    own = network.state_dict()
    missing, others = sorted(own.keys() - kept.keys()), sorted(kept.keys() - own.keys())
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]
    differ = [k for k in own.keys() & kept.keys() if own[k].shape != kept[k].shape]
    faults = [
        f"it {what} {len(keys)}, such as {sorted(keys)[0]}"
        for what, keys in (
            ("lacks", missing),
            ("has others,", others),
            ("has other shapes of", differ),
        )
        if keys
    ]
    if faults:
        raise UsageError(f"{file} holds no weights of {name}: {'; '.join(faults)}.")
    network.load_state_dict(kept, strict=False)
