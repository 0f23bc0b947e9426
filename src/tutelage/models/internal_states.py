"""Modules of small-image networks that output the internal states I0 to I3."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from tutelage.errors import UsageError, nearest
from tutelage.functional.module_state import modes_kept
from tutelage.functional.submodule_outputs import find_submodule, record_outputs
from tutelage.models.catalogue import default_tap

STAGES = {"I1": "stage3", "I2": "stage2", "I3": "stage1"}
"""outputs of the last convolutions at 8x8, 16x16 and 32x32 pixels, where images have 32x32"""


class Tap(NamedTuple):
    """A module of a student and the width of its output."""

    name: str
    width: int
    """features per example, flattened"""


def internal_state(student: nn.Module, which: str, image: Sequence[int]) -> Tap:
    """The module of an internal state of Fan et al. 2021, section 4.

    I0 is what feeds the last linear layer, in any student; I1 to I3 are the outputs of the last
    to the first stage of a CIFAR or wide ResNet. I1, averaged over its pixels, would be I0.

    Args:
        student: The student.
        which: I0, I1, I2 or I3.
        image: [C, H, W] of what it is shown.

    Returns:
        The tap.

    Raises:
        UsageError: If there is no such internal state, or the student has no stages.
    """
    if which == "I0":
        return Tap(name := default_tap(student), measured_width(student, name, image))
    if which not in STAGES:
        raise UsageError(f"Unknown internal state '{which}'. {nearest(which, ('I0', *STAGES))}")
    if STAGES[which] not in dict(student.named_children()):
        raise UsageError(
            f"{type(student).__name__} has no {STAGES[which]}, which {which} is: take I0, or a "
            "CIFAR or wide ResNet."
        )
    return Tap(STAGES[which], measured_width(student, STAGES[which], image))


@torch.no_grad()
def measured_width(student: nn.Module, tap: str, image: Sequence[int]) -> int:
    """The output width of a module, measured on one black image."""
    find_submodule(student, tap)
    first = next(student.parameters())
    with modes_kept(student):
        student.eval()
        with record_outputs(student, (tap,)) as features:
            student(torch.zeros(1, *image, device=first.device, dtype=first.dtype))
    return features[tap].flatten(1).shape[1]
