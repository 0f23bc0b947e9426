"""The scale hours runs mini with the seeds that its undecided claims need, if they are few."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from papers.catalogue import RECIPES, load_recipe
from papers.framework import plan as planning
from papers.framework.args import HOURS, Reproduce
from papers.framework.paper_tables import Hours, package_data, planned_hours
from papers.framework.plan import Plan, make_plan
from papers.framework.power import decisive_comparison, open_claims, seconds_per_seed
from papers.framework.results import stored_results
from tests.papers.framework.tiny import RECIPE, Settings, recipe
from tests.trained import one_line, run_papers

MOST_PLANNED = 3
"""hours of a recipe at the scale ``hours``"""
ROOT = Path(__file__).parents[3]
MINI = {c["recipe"]: c for c in stored_results(ROOT) if c["scale"] == "mini"}


@pytest.fixture
def tiny_plan(monkeypatch):
    """Gives the tiny recipe a plan."""

    def give(planned: Hours | None) -> None:
        monkeypatch.setattr(planning, "planned_hours", lambda _name: planned)

    return give


def asked(scale: str, **changes) -> Plan:
    fields = {"out": Path("out"), "device": "cpu"} | changes
    return make_plan(RECIPE, Reproduce("tiny", scale=scale, **fields))


def affordable_seeds(content: Mapping[str, Any]) -> int | None:
    """The seeds that decide all claims of a result that the scale ``hours`` can decide."""
    needs = [decisive_comparison(claim)["needed"] for claim in open_claims(content)]
    hours = [need for need in needs if need and need["seeds"]]
    return max((n["seeds"] for n in hours if n["hours"] <= MOST_PLANNED), default=None)


@pytest.mark.parametrize("name", RECIPES)
def test_the_planned_seeds_are_those_that_the_published_results_need(name):
    planned, content = planned_hours(name), MINI.get(name)
    if content is None:
        assert planned is None
    elif HOURS in load_recipe(name).settings:  # longer training: as many seeds as fit
        assert planned is not None
        assert planned.hours <= MOST_PLANNED
        assert open_claims(content)
    else:
        seeds, needed = affordable_seeds(content), None
        if seeds is not None:
            needed = Hours(seeds, round(seeds * seconds_per_seed(content) / 3600, 2))
        assert planned == needed, "see papers/framework/hours.yaml"


@pytest.mark.parametrize("name", package_data("hours.yaml"))
def test_a_plan_is_more_seeds_or_longer_training_of_mini(name):
    known, planned = load_recipe(name), planned_hours(name)
    assert planned is not None
    made = make_plan(known, Reproduce(name, scale=HOURS, device="cpu"))
    assert made.seeds == planned.seeds > 3
    assert made.changed == {}
    longer = HOURS in known.settings
    assert (made.settings != known.settings["mini"]) == longer
    assert made.folder.parent.name == (HOURS if longer else "mini")


def test_jobs_of_mini_are_those_of_hours_with_the_same_settings(tiny_plan):
    tiny_plan(Hours(7, 1.0))
    made, mini = asked(HOURS), asked("mini")
    assert (made.scale, made.seeds, mini.seeds) == (HOURS, 7, 3)
    assert mini.jobs == made.jobs[: len(mini.jobs)]
    assert asked(HOURS, seeds=2).jobs == mini.jobs[:6]
    other = asked(HOURS, set=("gain=2",))
    assert other.folder != asked("mini", set=("gain=2",)).folder
    assert other.changed == {"gain": 2.0}


def test_longer_training_has_jobs_of_its_own(tiny_plan):
    tiny_plan(Hours(7, 1.0))
    longer = recipe(settings={**RECIPE.settings, HOURS: Settings(epochs=9)})
    made = make_plan(longer, Reproduce("tiny", scale=HOURS, device="cpu"))
    assert made.settings == Settings(epochs=9)
    assert made.changed == {}
    assert made.folder.parent.name == HOURS


def test_a_result_at_scale_hours_goes_on_from_the_jobs_of_mini(place, tiny_plan):
    tiny_plan(Hours(3, 1.0))
    place.reproduce("--seeds", 2, "--jobs", 1)
    place.ran()
    answer = place.reproduce("--scale", HOURS, "--jobs", 1)
    assert answer.code == 0, answer
    assert place.ran() == ["broken-2", "gar-2", "plain-2"]
    assert (place.out / "results" / HOURS / "tiny.json").exists()
    assert "## tiny, hours" in (place.out / "docs" / "results.md").read_text()


@pytest.mark.usefixtures("place")
def test_a_recipe_without_a_plan_refuses_the_scale_in_one_line():
    one_line(
        run_papers("reproduce", "tiny", "--scale", HOURS), "tiny has no scale hours", "claims"
    )


@pytest.mark.usefixtures("place")
def test_the_listing_shows_planned_hours_and_seeds():
    shown = " ".join(run_papers("list").out.split())
    planned = planned_hours("mmel-copies")
    assert planned is not None
    assert f"hours: {planned.hours:g} h, {planned.seeds} seeds" in shown
