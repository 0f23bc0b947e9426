"""Teachers: what decides what a student trains on and how much each example counts."""

from tutelage.teachers.auxiliary_targets import AuxiliaryTargets
from tutelage.teachers.curriculum import Curriculum
from tutelage.teachers.internal_state import PAPER_SURFACE, SURFACE, InternalState
from tutelage.teachers.keep_or_drop import KeepOrDrop
from tutelage.teachers.loss_weigher import LossWeigher
from tutelage.teachers.plain import Plain
from tutelage.teachers.split_sampler import Draw, SplitSampler
from tutelage.teachers.together import Together

__all__ = [
    "PAPER_SURFACE",
    "SURFACE",
    "AuxiliaryTargets",
    "Curriculum",
    "Draw",
    "InternalState",
    "KeepOrDrop",
    "LossWeigher",
    "Plain",
    "SplitSampler",
    "Together",
]
