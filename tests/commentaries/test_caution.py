"""A commentary learned along one run is warned of where it looks at a student's state."""

import pytest

from tutelage.commentaries.card import caution

SURFACE = {"tap": None, "surface": ["margin", "loss"]}
OF_STUDENT = [
    ("LossWeigher", {}),
    ("DynamicLoss", {}),
    ("InternalState", SURFACE),
    ("InternalState", SURFACE | {"tap": "pool", "surface": []}),
    ("KeepOrDrop", {"keeps": {"teacher": "KeepProbability", "settings": {}}}),
    (
        "Together",
        {
            "prepares": {"teacher": "Blending", "settings": {"classes": 3}},
            "weighs": {"teacher": "InternalState", "settings": SURFACE},
        },
    ),
]
OF_IMAGES = [
    ("Blending", {"classes": 3}),
    ("AttentionMask", {"sigma": 2.0}),
    ("Curriculum", {"iteration": True}),
    ("InternalState", SURFACE | {"surface": ["progress"]}),
    ("InternalState", SURFACE | {"surface": []}),
]


def card(teacher: str, settings: dict[str, object], learnt_on: object) -> dict[str, object]:
    """What matters of a card."""
    return {"teacher": teacher, "settings": settings, "learnt_on": learnt_on}


@pytest.mark.parametrize(("teacher", "settings"), OF_STUDENT)
def test_what_looks_at_a_student_and_saw_one_run_is_warned_of_in_a_line(teacher, settings):
    line = caution(card(teacher, settings, {"runs": 1}))
    assert "along one run" in line
    assert "tutelage commentary learn" in line
    assert "\n" not in line


@pytest.mark.parametrize(("teacher", "settings"), OF_STUDENT)
@pytest.mark.parametrize("learnt_on", [{"runs": 20}, {"runs": 0}, {}, None, "noise"])
def test_of_many_runs_or_an_unknown_number_it_is_not(teacher, settings, learnt_on):
    assert caution(card(teacher, settings, learnt_on)) == ""


@pytest.mark.parametrize(("teacher", "settings"), OF_IMAGES)
def test_what_looks_at_examples_alone_is_not(teacher, settings):
    assert caution(card(teacher, settings, {"runs": 1})) == ""
