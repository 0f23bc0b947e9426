"""What is known of a step: how it is to be taken, and what it saw."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from tutelage.types import Observation

Phi = dict[str, Tensor]


@dataclass
class Note:
    """What a step saw, for steps that are taken again."""

    seen: Observation
    buffers: dict[str, Tensor]
    """the teacher's, before the step"""
    params: dict[str, Tensor]
    """the student's, before the step"""
    started: dict[str, Tensor]
    """the student's buffers, before the pass"""
    renewed: dict[str, Tensor]
    """the student's buffers, after the pass"""
    loss: float
    weights: Tensor


class Asked(NamedTuple):
    """How a step is to be taken."""

    phi: Phi
    weighs: Phi | None = None
    """what weighs, where another one has prepared"""
    note: Note | None = None
    """of the same step of the run that is differentiated: what does not depend on phi"""
    frozen: bool = False
    """gradients are those at the parameters of the note"""
    untaught: bool = False
    virtual: bool = False
    """plain SGD of the same rate"""
