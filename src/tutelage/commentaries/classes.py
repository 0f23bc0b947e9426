"""Check that a data set has the classes that a commentary was learned on."""

from collections.abc import Mapping, Sequence
from typing import Any

from tutelage.commentaries.described import classes_of, parts_of
from tutelage.commentaries.kinds import Settings
from tutelage.errors import UsageError, one_line
from tutelage.teachers import InternalState

BY_CLASS = (
    *("Blending", "DynamicLoss", "KeepProbability", "MentorNetDD"),
    *("MetaLabelCorrection", "MetaSoftLabelCorrector", "OutOfFoldTargets"),
)
"""teachers that treat each class in its own way; ``InternalState`` where it sees the label"""


def classes_learnt_on(card: Mapping[str, Any]) -> tuple[str, ...]:
    """The class names that a commentary was learned on, in label order."""
    origin = card.get("learnt_on")
    names = origin.get("classes") if isinstance(origin, dict) else None
    return tuple(map(str, names)) if isinstance(names, list) else ()


def require_same_classes(
    name: str, settings: Settings, classes: Sequence[str], known: Sequence[str]
) -> None:
    """Raise if a commentary was learned on other classes."""
    zeroed = (
        ", or zero what it knows of classes: zero_label, as --label-embedding zero"
        if name == InternalState.__name__
        else ""
    )
    for made_for in classes_of(settings):
        if made_for != len(classes):
            raise UsageError(
                f"it was made for {made_for} classes, but the data has {len(classes)}. "
                f"Learn one on this data with tutelage train{zeroed}."
            )
    if not known or not _tells_apart(name, settings) or list(classes) == list(known):
        return
    strange = [one_line(c) for c in classes if c not in known]
    own, others = (", ".join(map(one_line, names)) for names in (classes, known))
    said = (
        f"it does not know the class{'es' if len(strange) > 1 else ''} {', '.join(strange)}"
        if strange
        else f"the data has its classes in another order ({own})"
    )
    raise UsageError(
        f"{said}; it was learnt on {others}. Bring the class names to those, or "
        f"learn one on this data with tutelage train{zeroed}."
    )


def _tells_apart(name: str, settings: Settings) -> bool:
    if name == InternalState.__name__:
        return bool(settings["label"]) or "prediction" in settings["surface"]
    inside = (_tells_apart(part["teacher"], part["settings"]) for part in parts_of(settings))
    return name in BY_CLASS or any(inside)
