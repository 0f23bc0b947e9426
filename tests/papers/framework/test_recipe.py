"""A recipe whose parts do not fit together is refused when it is made."""

import dataclasses

import pytest

from papers.framework.recipe import Panel, Plot
from tests.papers.framework.tiny import Settings, recipe
from tutelage_cli.claims import Claim, Comparison


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"settings": {"smoke": Settings()}}, "scales"),
        ({"minutes": {"smoke": 1.0}}, "scales"),
        ({"arms": ("plain", "gar", "broken", "a/b")}, "a/b"),
        ({"paper": "garr"}, "garr"),
        ({"arms": ("plain",)}, "is not measured"),
        ({"claims": (Claim("x", (Comparison(("gar", "scor"), "above", 0.0),)),)}, "'scor'"),
        ({"claims": ()}, "no claim"),
        ({"printed": {("gar", "score"): ("FC / GAR", "Noisy")}}, "no cell"),
        ({"plots": (Plot("Score", "points", {"x": ("xx", "score")}),)}, "xx"),
        ({"plots": (Panel("Grid", "xx", "shares"),)}, "xx"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, part):
    with pytest.raises(ValueError, match=part):
        recipe(**changes)


def test_a_recipe_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe().name = "other"  # type: ignore[misc]
