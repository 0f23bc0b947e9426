"""The teachers that can be stored, and the plain settings that each is built from."""

from collections.abc import Callable, Mapping
from types import MappingProxyType, UnionType
from typing import Any, NamedTuple

import torch
from torch import nn

from tutelage.models import FourBlockCNN, FourBlocks, MaskUNet, TwoBlockCNN
from tutelage.teacher import weights_attached
from tutelage.teachers import (
    Aligned,
    AttentionMask,
    AuxiliaryTargets,
    Blending,
    CombinedTeacher,
    Curriculum,
    DynamicLoss,
    InternalState,
    KeepOrDrop,
    KeepProbability,
    LearnedAugmentation,
    LossWeigher,
    MentorNetDD,
    MentorNetPD,
    MetaLabelCorrection,
    MetaSoftLabelCorrector,
    Mixup,
    OutOfFoldTargets,
    PermutationControl,
    RandomBlending,
    RandomMask,
    SelfPaced,
    Shuffled,
    SupportWeights,
)

Settings = Mapping[str, Any]
Types = dict[str, type | UnionType]
Builder = Callable[[Settings, nn.Module], nn.Module]
COUNTS = ("hidden_layers", "levels")
"""settings that are numbers of layers, each with weights of its own"""
NESTED_TEACHERS = ("keeps", "learned", "prepares", "weighs")
"""settings that are teachers"""


class Kind(NamedTuple):
    """A module that can be described by plain values."""

    module: type[nn.Module]
    types: Types
    """its settings; each is an attribute of that name, unless ``read`` says otherwise"""
    make: Builder | None = None
    """from the settings, with networks and teachers already made, and the student; None: the
    module, with the settings as keyword arguments"""
    read: Callable[[Any], Settings] = lambda _: {}
    since: Settings = MappingProxyType({})
    """values of settings that commentaries of earlier releases lack"""
    default: Settings = MappingProxyType({})
    """settings that are stored only where they differ from these"""

    def build(self, settings: Settings, student: nn.Module) -> nn.Module:
        """The module, with fresh weights."""
        return self.module(**settings) if self.make is None else self.make(settings, student)

    def completed(self, settings: Settings) -> dict[str, Any]:
        """Settings with those that are not stored."""
        return {**self.since, **self.default, **settings}


NETWORKS: dict[str, Kind] = {
    "TwoBlockCNN": Kind(
        TwoBlockCNN,
        {"channels": int, "outputs": int, "size": int},
        read=lambda network: {"outputs": network.fc.out_features},
    ),
    "FourBlockCNN": Kind(
        FourBlockCNN,
        {"channels": int, "outputs": int, "size": int, "width": int},
        read=lambda network: {
            "channels": network.pool.channels,
            "outputs": network.fc.out_features,
            "size": network.pool.size,
            "width": network.pool.width,
        },
    ),
    "FourBlocks": Kind(FourBlocks, {"channels": int, "size": int, "width": int}),
    "MaskUNet": Kind(MaskUNet, {"channels": int, "width": int, "levels": int}),
}
"""the networks that a stored teacher may have"""

DETACHED = {"attached": False}
MENTOR: Types = {
    "percentile": float,
    "decay": float,
    "burn_in": float,
    "dropout": float,
    "attached": bool,
}
"""settings that both MentorNets have"""


def _percentile(teacher: MentorNetPD | MentorNetDD) -> Settings:
    average = teacher.average
    return {"percentile": average.percentile, "decay": average.decay}


def as_weighs(teacher: CombinedTeacher) -> bool:
    """Whether two teachers together have the depth of the one that weighs."""
    return teacher.attached == weights_attached(teacher.weighs)


KINDS: dict[str, Kind] = {
    "InternalState": Kind(
        InternalState,
        {
            "classes": int,
            "tap": str | None,
            "label": bool,
            "surface": list,
            "hidden_layers": int,
            "width": int,
            "attached": bool,
            "tap_width": int | None,
            "level": str,
        },
        lambda s, student: InternalState(student, **s),
        lambda teacher: {
            "tap": teacher.taps[0] if teacher.taps else None,
            "surface": list(teacher.surface),
            "tap_width": teacher.tap_width or None,
        },
        {"level": "free"},
    ),
    "LossWeigher": Kind(
        LossWeigher, {"width": int, "normalise": str | None, "attached": bool}, default=DETACHED
    ),
    "Curriculum": Kind(
        Curriculum,
        {"iteration": bool, "beyond": str, "network": dict},
        read=lambda teacher: {"iteration": teacher.uses_progress},
    ),
    "SupportWeights": Kind(
        SupportWeights, {"features": int, "classes": int, "width": int, "network": dict}
    ),
    "Blending": Kind(
        Blending, {"classes": int}, read=lambda teacher: {"classes": len(teacher.phi)}
    ),
    "RandomBlending": Kind(
        RandomBlending,
        {"classes": int},
        lambda s, _: RandomBlending(**s, seed=0),
        lambda teacher: {"classes": len(teacher.shares)},
    ),
    "Shuffled": Kind(
        Shuffled,
        {"classes": int},
        lambda s, _: Shuffled(Blending(**s), seed=0),
        lambda teacher: {"classes": len(teacher.shares)},
    ),
    "Mixup": Kind(Mixup, {"classes": int, "alpha": float}),
    "MetaLabelCorrection": Kind(
        MetaLabelCorrection,
        {"classes": int, "tap": str, "embedding": int, "width": int, "tap_width": int},
        lambda s, student: MetaLabelCorrection(student, **s),
        lambda teacher: {"tap": teacher.taps[0]},
    ),
    "MetaSoftLabelCorrector": Kind(
        MetaSoftLabelCorrector,
        {"examples": int, "classes": int, "width": int},
        lambda s, _: MetaSoftLabelCorrector(
            torch.empty(s["examples"], dtype=torch.int64),
            torch.empty(s["examples"], s["classes"]),
            width=s["width"],
        ),
        lambda teacher: dict(zip(("examples", "classes"), teacher.previous.shape, strict=True)),
    ),
    "OutOfFoldTargets": Kind(
        OutOfFoldTargets,
        {
            "examples": int,
            "classes": int,
            "facts": int,
            "width": int,
            "table": bool,
            "share": float,
        },
        lambda s, _: OutOfFoldTargets.of_sizes(**s),
        lambda teacher: {
            "examples": len(teacher.ids),
            "classes": teacher.closed_form.shape[1],
            "facts": teacher.facts.shape[1],
            "table": teacher.table is not None,
        },
    ),
    "AttentionMask": Kind(
        AttentionMask, {"sigma": float, "background": float, "network": dict}
    ),
    "RandomMask": Kind(RandomMask, {"sigma": float, "background": float}),
    "AuxiliaryTargets": Kind(AuxiliaryTargets, {"network": dict}),
    "DynamicLoss": Kind(DynamicLoss, {"classes": int, "width": int}),
    "Aligned": Kind(Aligned, {}),
    "SelfPaced": Kind(SelfPaced, {"start": float, "full_at": float, "end": float}),
    "MentorNetPD": Kind(
        MentorNetPD, {"width": float, **MENTOR}, read=_percentile, default=DETACHED
    ),
    "MentorNetDD": Kind(
        MentorNetDD, {"classes": int, **MENTOR}, read=_percentile, default=DETACHED
    ),
    "KeepProbability": Kind(
        KeepProbability, {"classes": int, "attached": bool}, default=DETACHED
    ),
    "LearnedAugmentation": Kind(
        LearnedAugmentation,
        {"space": str, "most": int, "mean": list, "std": list},
        read=lambda teacher: {"space": teacher.space_name},
    ),
    "KeepOrDrop": Kind(KeepOrDrop, {"keeps": dict}),
    "Permuted": Kind(PermutationControl, {"learned": dict}),
    "Together": Kind(
        CombinedTeacher,
        {"prepares": dict, "weighs": dict, "attached": bool | None},
        read=lambda teacher: {"attached": None if as_weighs(teacher) else teacher.attached},
        default={"attached": None},
    ),
}
"""the teachers that can be stored"""
SIMPLE = {
    name: kind for name, kind in KINDS.items() if not kind.types.keys() & set(NESTED_TEACHERS)
}
"""those that may be part of another"""
