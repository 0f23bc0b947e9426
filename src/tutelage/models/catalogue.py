"""Student networks by name."""

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import NamedTuple

import torch
from torch import nn

from tutelage.errors import MissingExtraError, UsageError
from tutelage.models.cifar_resnet import CifarResNet
from tutelage.models.four_block_cnn import FourBlockCNN
from tutelage.models.resnet_cifar_stem import resnet18_cifar, resnet34_cifar
from tutelage.models.torchvision_models import torchvision_model, torchvision_names
from tutelage.models.two_block_cnn import TwoBlockCNN
from tutelage.models.wide_resnet import wrn
from tutelage.randomness import seeded


class Images(NamedTuple):
    """Channels, size and number of classes of a data set."""

    classes: int
    channels: int
    size: int
    """height and width, in pixels"""


STUDENTS: dict[str, Callable[[Images], nn.Module]] = {
    "cnn": lambda images: TwoBlockCNN(images.channels, images.classes, images.size),
    "cnn4": lambda images: FourBlockCNN(images.channels, images.classes, images.size),
    **{
        f"resnet{depth}": lambda images, depth=depth: CifarResNet(depth, *images[:2])
        for depth in (8, 20, 32, 44, 56, 110)
    },
    "resnet18-cifar": lambda images: resnet18_cifar(*images[:2]),
    "resnet34-cifar": lambda images: resnet34_cifar(*images[:2]),
}
"""The students by name; besides these, ``wrn-D-K`` and torchvision's names build one too."""

_WIDE = re.compile(r"wrn-(\d+)-(\d+)", re.ASCII)
_OFTEN = {f"resnet{depth}" for depth in (18, 34, 50, 101, 152)}
"""names of torchvision's for which nobody need wait until it is imported"""


def build_student(name: str, *, classes: int, channels: int, size: int, seed: int) -> nn.Module:
    """Build a student on the CPU, its weights drawn from ``seed`` alone.

    Torch's global generators are left as they were.

    Args:
        name: One of ``STUDENTS``, a wide ResNet such as ``wrn-28-10``, or the name of a
            torchvision classification model.
        classes: Columns of the output.
        channels: Channels of an input image.
        size: Height and width of an input image, in pixels.
        seed: The same seed gives the same weights.

    Returns:
        The network, in training mode.
    """
    with seeded(seed), torch.device("cpu"):
        return _build(name, Images(classes, channels, size))


def _build(name: str, images: Images) -> nn.Module:
    require_student(name)
    if name in STUDENTS:
        return STUDENTS[name](images)
    if wide := _WIDE.fullmatch(name):
        depth, widen = map(int, wide.groups())
        return wrn(depth, widen, classes=images.classes, channels=images.channels)
    return torchvision_model(name, classes=images.classes, channels=images.channels)


def require_student(name: str) -> None:
    """Raise if no student has a name."""
    if name in STUDENTS or name in _OFTEN or _WIDE.fullmatch(name):
        return
    try:
        others = torchvision_names()
    except MissingExtraError as error:
        raise UsageError(f"{_unknown(name, [])} For torchvision's models: {error}.") from error
    if name not in others:
        raise UsageError(_unknown(name, others))


def _unknown(name: str, others: list[str]) -> str:
    close = get_close_matches(name, [*STUDENTS, "wrn-28-10", *others], n=1, cutoff=0.5)
    question = f" Did you mean {close[0]!r}?" if close else ""
    return (
        f"unknown student {name!r}.{question} Allowed: {', '.join(STUDENTS)}, wrn-D-K such as"
        " wrn-28-10, or a torchvision classification model such as resnet18."
    )


def default_tap(student: nn.Module) -> str:
    """The module whose output feeds the student's last linear layer.

    That is the module registered just before the last ``nn.Linear`` in the order of
    ``named_modules()``, taken as a whole where it has parts of its own, and never one that
    contains the linear layer: ``pool`` for our students, ``avgpool`` for torchvision's
    ResNets.

    Args:
        student: A network with a linear head.

    Returns:
        A name that ``student.get_submodule`` knows.

    Raises:
        UsageError: If the student has no linear layer, or none with a module before it.

    Note:
        The order is that of registration, not of the forward pass: where a model pools or
        flattens by a function after that module, the output is what came before that.
    """
    names = [name for name, _ in student.named_modules()]
    linear = [name for name, part in student.named_modules() if isinstance(part, nn.Linear)]
    if not linear:
        raise UsageError(
            f"{type(student).__name__} has no linear layer whose input could be tapped; name"
            " the module to tap"
        )
    head = linear[-1]
    before = names[: names.index(head)]
    before = [name for name in before if name and not f"{head}.".startswith(f"{name}.")]
    if not before:
        raise UsageError(
            f"{type(student).__name__} has no module before its last linear layer to tap;"
            " name the module to tap"
        )
    # The outermost module that ends there: everything up to where the two names part.
    return _up_to_parting(before[-1], head)


def _up_to_parting(name: str, other: str) -> str:
    parts, others = name.split("."), other.split(".")
    shared = next(i for i, part in enumerate(parts) if part != others[i])
    return ".".join(parts[: shared + 1])
