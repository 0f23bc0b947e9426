"""Warnings about the reuse of a commentary."""

from collections.abc import Mapping
from typing import Any

from tutelage.commentaries.kinds import PARTS

OF_STUDENT = (
    *("DynamicLoss", "KeepProbability", "LossWeigher"),
    *("MetaLabelCorrection", "MetaSoftLabelCorrector"),
)
"""teachers that depend on the student's state"""
STATELESS_FACTS = ("progress",)
"""surface facts of ``InternalState`` that do not depend on it"""
ONE_RUN = (
    "Caution: learnt along one run, it ends as the teacher of a trained student. A new student "
    "may get next to no weight from it and stay untrained. Learn one over fresh students: "
    "tutelage commentary learn, with --algorithm unroll, its default."
)


def caution(card: Mapping[str, Any]) -> str:
    """Warn of a teacher that depends on the student's state and was learned along one run.

    At the end of a run such a teacher gives low weights to examples that the student has not
    learned; for a new student these are all examples.

    Args:
        card: The commentary's card, as ``read_card`` returns it.

    Returns:
        The warning, or an empty string.
    """
    learnt_on = card.get("learnt_on")
    runs = learnt_on.get("runs") if isinstance(learnt_on, dict) else None
    return ONE_RUN if runs == 1 and _of_student(card["teacher"], card["settings"]) else ""


def _of_student(name: str, settings: Mapping[str, Any]) -> bool:
    if name == "InternalState":
        return settings["tap"] is not None or not set(settings["surface"]) <= set(
            STATELESS_FACTS
        )
    parts = [settings[key] for key in PARTS if key in settings]
    return name in OF_STUDENT or any(_of_student(p["teacher"], p["settings"]) for p in parts)
