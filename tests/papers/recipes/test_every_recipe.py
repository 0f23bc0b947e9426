"""Every recipe is well made, and runs at smoke scale: the same again for the same seed."""

import math
import pickle
from importlib import resources

import pytest
import torch

from papers.catalogue import RECIPES, load_recipe
from papers.framework.args import HOURS, SCALES, Reproduce
from papers.framework.paper_tables import package_data
from papers.framework.plan import make_plan
from papers.framework.recipe import Outcome, Panel, Plot


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_in_a_line_what_it_checks(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert "\n" not in recipe.title
    assert len(recipe.title) < 100
    assert recipe.claims
    assert all(claim.comparisons for claim in recipe.claims)
    assert recipe.minutes["gpu"] <= 10
    assert recipe.minutes["smoke"] <= 1


@pytest.mark.parametrize("name", RECIPES)
def test_what_a_job_runs_goes_to_another_process_by_name_alone(name):
    run = load_recipe(name).run
    assert pickle.dumps(pickle.loads(pickle.dumps(run))) == pickle.dumps(run)


@pytest.mark.parametrize("scale", [scale for scale in SCALES if scale != HOURS])
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_can_be_asked_for_at_every_scale(name, scale):
    recipe = load_recipe(name)
    planned = make_plan(recipe, Reproduce(recipe=name, scale=scale, device="cpu"))
    assert planned.settings == recipe.settings[scale]
    assert planned.changed == {}
    assert planned.folder.name.startswith(name)


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", RECIPES)
def test_every_arm_runs_at_smoke_scale(name):
    recipe, device = load_recipe(name), torch.device("cpu")
    for arm in recipe.arms:
        outcome: Outcome = recipe.run(arm, 0, recipe.settings["smoke"], device)
        assert outcome.metrics.keys() == recipe.metrics.keys(), arm
        assert all(math.isfinite(value) for value in outcome.metrics.values()), arm
        if recipe.repeatable:
            again = recipe.run(arm, 0, recipe.settings["smoke"], device)
            assert again == outcome, arm
        plots = [plot for plot in recipe.plots if isinstance(plot, Plot)]
        drawn = {s for plot in plots for a, s in plot.lines.values() if a == arm}
        assert drawn <= outcome.series.keys()
        panels = [plot for plot in recipe.plots if isinstance(plot, Panel)]
        assert {p.drawing for p in panels if p.arm == arm} <= outcome.drawings.keys()


def test_every_recipe_says_what_differs_from_its_paper():
    noted = package_data("notes.yaml").keys() - {"shared"}
    assert noted == RECIPES.keys()


def test_the_papers_numbers_travel_with_the_package():
    file = resources.files("papers.framework").joinpath("paper_tables.yaml")
    assert file.is_file()
