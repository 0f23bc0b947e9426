"""The table of what each idea is worth: the best of both sides, paired by seed."""

from pathlib import Path

import pytest

from papers.catalogue import RECIPES, load_recipe
from papers.framework.ideas import IDEAS, compare_ideas
from papers.framework.page import idea_cells, page, write_page
from papers.framework.paper_tables import PAPERS
from papers.pays.cells import CELLS, LEARNED
from tutelage.storage.json_files import write_json

ROOT = Path(__file__).parents[3]


def stored(root: Path, result: str, arms: dict) -> None:
    (root / "results" / result).parent.mkdir(parents=True, exist_ok=True)
    write_json(root / "results" / f"{result}.json", {"arms": arms})


def copies(**accuracies: list[float | None]) -> dict:
    return {arm: {"accuracy": values} for arm, values in accuracies.items()}


@pytest.mark.parametrize("idea", IDEAS, ids=lambda idea: f"{idea.result}-{idea.name}")
def test_every_idea_names_arms_that_its_recipe_or_cell_trains(idea):
    kind, name = idea.result.split("/")
    assert idea.paper in PAPERS
    if kind == "pays":
        [cell] = [cell for cell in CELLS if cell.name == name]
        assert {*idea.arms} <= {*LEARNED, *cell.teachers}
        return
    recipe = load_recipe(name)
    assert name in RECIPES
    assert {*idea.arms, *idea.alternatives} <= {*recipe.arms}
    assert not {*idea.arms} & {*idea.alternatives}
    assert idea.metric in recipe.metrics


def test_the_best_form_is_compared_with_the_best_alternative_by_seed(tmp_path):
    arms = copies(
        one=[90.0, 90.0],
        long=[94.0, 95.0],
        uniform=[93.0, 92.0],
        hard=[92.0, 93.0],
        soft=[95.0, 97.0],
    )
    stored(tmp_path, "mini/mmel-cifar", arms)
    [found] = compare_ideas(tmp_path)
    assert found.idea.result == "mini/mmel-cifar"
    assert (found.arm, found.alternative) == ("soft", "long")
    assert found.versus_best.mean == pytest.approx(1.5)
    assert found.versus_plain.mean == pytest.approx(6)  # less one, the plain way
    assert not found.versus_best.above  # 1 and 2: the interval holds 0
    assert "| undecided |" in page([], [found])


def test_seeds_that_some_arm_lacks_are_left_out(tmp_path):
    more: list[float | None] = [95.0, 97.0, 10.0, 20.0]
    stored(tmp_path, "mini/mmel-cifar", copies(one=[90.0, 90.0], long=[94.0, 95.0], soft=more))
    [found] = compare_ideas(tmp_path)
    assert (found.mean, found.versus_best.mean) == (96, pytest.approx(1.5))


def test_where_less_is_better_the_smaller_mean_is_the_best(tmp_path):
    arms = {
        arm: {"error": values}
        for arm, values in {
            "interactions": [60.0, 61.0],
            "plain": [64.0, 65.1],
            "focal": [63.0, 64.1],
            "self-paced": [66.0, 67.0],
        }.items()
    }
    stored(tmp_path, "mini/interactions-clean", arms)
    [found] = compare_ideas(tmp_path)
    assert (found.alternative, found.versus_best.above) == ("focal", True)
    assert "| the idea |" in page([], [found])


def test_arms_with_a_failed_seed_do_not_count_and_shares_become_percent(tmp_path):
    arms = copies(one=[90.0, 91.0], long=[99.0, None], hard=[92.0, 92.9])
    stored(tmp_path, "mini/mmel-cifar", arms)
    of_seeds = [
        {"seed": s, "test_accuracy": a, "ratio": 1.0} for s, a in enumerate((0.5, 0.52))
    ]
    cell = {"margin-loss": of_seeds, "regularised": of_seeds}
    stored(tmp_path, "pays/mnist5k-flip2-0.4-20", cell)
    by_result = {found.idea.result: found for found in compare_ideas(tmp_path)}
    assert by_result["mini/mmel-cifar"].alternative == "one"
    assert by_result["pays/mnist5k-flip2-0.4-20"].mean == pytest.approx(51)


def test_the_page_of_a_folder_without_these_results_has_no_such_table(tmp_path):
    assert "What each idea is worth" not in write_page(tmp_path).read_text("utf-8")


def test_the_stored_page_shows_every_stored_idea():
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    found = compare_ideas(ROOT)
    assert len(found) == len(IDEAS), [idea.result for idea in IDEAS]
    for one in found:
        assert f"| {' | '.join(idea_cells(one))} |" in text


def test_the_result_of_the_largest_scale_counts(tmp_path):
    scales: list[tuple[str, list[float | None]]] = [("mini", [1.0, 1.0]), ("hours", [5.0, 6.0])]
    for scale, hard in scales:
        arms = copies(one=[2.0, 3.0], long=[2.0, 3.0], uniform=[2.0, 3.0], hard=hard)
        stored(tmp_path, f"{scale}/mmel-cifar", arms)
    [found] = compare_ideas(tmp_path)
    assert (found.idea.result, found.mean) == ("hours/mmel-cifar", 5.5)
