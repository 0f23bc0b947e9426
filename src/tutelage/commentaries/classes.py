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
"""teachers with parameters of classes; ``InternalState`` where it takes the label"""


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
    for expected in classes_of(settings):
        if expected != len(classes):
            raise UsageError(
                f"it was made for {expected} classes, but the data has {len(classes)}. "
                f"Learn one on this data with tutelage train{zeroed}."
            )
    if not known or not _depends_on_classes(name, settings) or list(classes) == list(known):
        return
    unknown = [one_line(c) for c in classes if c not in known]
    own, others = (", ".join(map(one_line, names)) for names in (classes, known))
    difference = (
        f"it does not know the class{'es' if len(unknown) > 1 else ''} {', '.join(unknown)}"
        if unknown
        else f"the data has its classes in another order ({own})"
    )
    raise UsageError(
        f"{difference}; it was learnt on {others}. Bring the class names to those, or "
        f"learn one on this data with tutelage train{zeroed}."
    )


def _depends_on_classes(name: str, settings: Settings) -> bool:
    if name == InternalState.__name__:
        return bool(settings["label"]) or "prediction" in settings["surface"]
    inside = (
        _depends_on_classes(part["teacher"], part["settings"]) for part in parts_of(settings)
    )
    return name in BY_CLASS or any(inside)
