"""The teachers that tables about deep interactions compare, as ways to teach a student."""

from functools import partial

from torch import nn

from papers.fan2021interactions.reweighting import Way
from tutelage.models import internal_state
from tutelage.models.catalogue import Images
from tutelage.signals import Lookahead
from tutelage.teachers import (
    PAPER_SURFACE,
    InternalState,
    LossWeigher,
    MentorNetPD,
)

FEATURES: dict[str, tuple[str | None, bool, bool]] = {
    "I0+M0": ("I0", True, False),
    "I0": ("I0", False, False),
    "M0": (None, True, False),
    "M1": (None, False, True),
    "M0+M1": (None, True, True),
    "I0+M0+M1": ("I0", True, True),
    "I1+M0": ("I1", True, False),
    "I2+M0": ("I2", True, False),
    "I3+M0": ("I3", True, False),
}
"""what the paper's ablations show the teacher: internal state, label, surface facts"""


def _built(
    features: str, hidden_layers: int, deep: bool, level: str, student: nn.Module, of: Images
) -> nn.Module:
    state, label, surface = FEATURES[features]
    image = (of.channels, of.size, of.size)
    tap = None if state is None else internal_state(student, state, image)
    return InternalState(
        student,
        classes=of.classes,
        tap=None if tap is None else tap.name,
        tap_width=None if tap is None else tap.width,
        label=label,
        surface=PAPER_SURFACE if surface else (),
        hidden_layers=hidden_layers,
        deep=deep,
        level=level,
    )


def interactions(
    features: str = "I0+M0",
    *,
    hidden_layers: int = 0,
    deep: bool = False,
    level: str = "free",
    every: int | None = None,
    look_back: int | None = None,
) -> Way:
    """A teacher of deep interactions that sees some of the paper's features."""
    build = partial(_built, features, hidden_layers, deep, level)
    return Way(build, every=every, look_back=look_back)


def _margin_loss(level: str, student: nn.Module, of: Images) -> nn.Module:
    seen = ("margin", "loss")
    made = {"classes": of.classes, "label": False, "surface": seen, "level": level}
    return InternalState(student, **made, hidden_layers=1, width=32)


def margin_loss(level: str) -> Way:
    """The teacher of ``tutelage train``: margin and loss, one hidden layer of 32."""
    return Way(partial(_margin_loss, level))


def _loss_weigher(_student: nn.Module, _images: Images) -> LossWeigher:
    return LossWeigher()


def _one_step_ahead(_look_back: int) -> Lookahead:
    return Lookahead()


def _mentor_net(_student: nn.Module, _images: Images) -> MentorNetPD:
    return MentorNetPD()


META_WEIGHT_NET = Way(_loss_weigher, signal=_one_step_ahead, every=1)
MENTOR_NET = Way(_mentor_net, signal=None)
