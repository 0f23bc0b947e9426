"""The card of a commentary: ``README.md`` beside its weights."""

from collections.abc import Mapping
from typing import Any

from tutelage.commentaries.kinds import NESTED_TEACHERS

UNKNOWN = "not recorded"
FACTS = {
    "data": "Data",
    "classes": "Classes",
    "student": "Student",
    "signal": "Signal",
    "seeds": "Seeds",
    "runs": "Runs of fresh students",
    "gains": "Gain in test accuracy",
    "command": "Command",
}
"""what a card says, in this order, by the fields of ``Provenance``"""
OF_STUDENT = (
    *("DynamicLoss", "KeepProbability", "LossWeigher"),
    *("MetaLabelCorrection", "MetaSoftLabelCorrector"),
)
"""teachers that depend on the student's state"""
STATELESS_FACTS = ("progress",)
"""surface facts of ``InternalState`` that do not depend on it"""
ONE_RUN = (
    "Caution: learned along one run, it ends as the teacher of a trained student. A new one "
    "may get next to no weight from it and stay untrained. Learn one over fresh students: "
    "tutelage commentary learn, with --algorithm unroll, its default."
)


def card_of(content: Mapping[str, Any]) -> str:
    """The card as Markdown, from the content of ``commentary.json``."""
    found = content.get("learnt_on")
    origin: Mapping[str, Any] = found if isinstance(found, dict) else {}
    facts = {title: fact_of(origin, name) for name, title in FACTS.items()}
    cells = {title: " ".join(fact.split()).replace("|", "\\|") for title, fact in facts.items()}
    table = "\n".join(f"| {title} | {cell} |" for title, cell in cells.items())
    settings = "\n".join(f"- {k}: `{v}`" for k, v in content["settings"].items())
    metrics = origin.get("metrics")
    measured = [f"- {k}: {_number(v, '.4g')}" for k, v in metrics.items()] if metrics else []
    notes = "\n".join(f"{line}\n" for line in (_missing(origin), caution(content)) if line)
    return f"""---
tags:
- tutelage
- commentary
---

# Commentary: {content["teacher"]}

A learned teacher for `tutelage`: what is shown of each training example, or how much it counts.

| Learned on | |
|---|---|
{table}

{notes}
Use it, from this folder or, where it is on the Hugging Face Hub, by its name there:

    tutelage train DATA --commentary path/to/this/folder
    tl.load_commentary("hf://USER/NAME", student)

Settings:

{settings or "- none"}

Measured when it was learned:

{chr(10).join(measured) or "- none"}
"""


def fact_of(origin: Mapping[str, Any], name: str) -> str:
    """One fact of where a commentary comes from, as text."""
    value = origin.get(name)
    if not value:
        return UNKNOWN
    if name == "gains" and isinstance(value, dict):
        points = ", ".join(
            f"{_number(gain, '+.1f')} over {control}" for control, gain in value.items()
        )
        of_what = origin.get("measured_on") or f"on what: {UNKNOWN}"
        return f"{points}, percentage points ({of_what})"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


def missing_facts(content: Mapping[str, Any]) -> list[str]:
    """The fields of ``Provenance`` that a card should say and does not."""
    found = content.get("learnt_on")
    origin: Mapping[str, Any] = found if isinstance(found, dict) else {}
    return [name for name in FACTS if name != "command" and fact_of(origin, name) == UNKNOWN]


def _missing(origin: Mapping[str, Any]) -> str:
    names = missing_facts({"learnt_on": origin})
    if not names:
        return ""
    return (
        f"Not recorded: {', '.join(FACTS[name].lower() for name in names)}. Record them with "
        "`tutelage commentary card`, or by the `Provenance` of `save_commentary`."
    )


def _number(value: Any, form: str) -> str:
    return format(value, form) if isinstance(value, int | float) else str(value)


def caution(card: Mapping[str, Any]) -> str:
    """A warning of a teacher that depends on the student's state and was learned along one run.

    At the end of a run such a teacher gives low weights to examples that the student has not
    learned; for a new student these are all examples. Empty for other teachers.
    """
    learnt_on = card.get("learnt_on")
    runs = learnt_on.get("runs") if isinstance(learnt_on, dict) else None
    return ONE_RUN if runs == 1 and _of_student(card["teacher"], card["settings"]) else ""


def _of_student(name: str, settings: Mapping[str, Any]) -> bool:
    if name == "InternalState":
        return settings["tap"] is not None or not set(settings["surface"]) <= set(
            STATELESS_FACTS
        )
    parts = [settings[key] for key in NESTED_TEACHERS if key in settings]
    return name in OF_STUDENT or any(_of_student(p["teacher"], p["settings"]) for p in parts)
