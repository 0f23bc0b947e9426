"""The page says what the results say: no more, no less, and the same every time."""

import json
from pathlib import Path

import pytest

from papers.framework.ideas import compare_ideas
from papers.framework.jobs import Failure
from papers.framework.page import page, write_page
from papers.framework.plan import Plan
from papers.framework.recipe import Panel
from papers.framework.results import MISSED, OPEN, WITHIN, result, rows, store, stored_results
from tests.papers.framework.tiny import RECIPE, recipe
from tutelage.errors import UsageError
from tutelage.storage.json_files import write_json

ROOT = Path(__file__).parents[3]


def planned(root: Path, scores: dict[str, list[float | None]], scale: str = "mini") -> Plan:
    """A plan whose jobs are finished, with these scores; None: not finished."""
    seeds = len(scores["gar"])
    made = Plan(RECIPE, scale, RECIPE.settings[scale], {}, seeds, "cpu", root)
    made.folder.mkdir(parents=True)
    for job in made.jobs:
        score = scores.get(job.arm, [1.0] * seeds)[job.seed]
        if score is not None:
            write_json(job.file, record(job.arm, job.seed, score))
    return made


def record(arm: str, seed: int, score: float) -> dict:
    return {
        "arm": arm,
        "seed": seed,
        "metrics": {"score": score, "loss": 0.1},
        "series": {"score": [score, score]},
        "drawings": {},
        "seconds": 1.5,
        "hardware": "CPU (x), one thread",
        "versions": {"torch": "1", "python": "3"},
    }


PRINTED = 0.65


@pytest.mark.parametrize(
    ("scores", "scale", "match"),
    [
        ([0.60, 0.65, 0.71], "mini", WITHIN),
        ([0.645, 0.646, 0.645], "mini", WITHIN),  # as near as two decimals can tell
        ([0.63, 0.631, 0.632], "mini", MISSED),
        ([0.9, 0.91, 0.92], "paper", MISSED),
        ([0.65], "mini", OPEN),
        ([0.65, 0.65, None], "mini", OPEN),
        ([0.60, 0.65, 0.71], "smoke", OPEN),
    ],
)
def test_a_printed_number_is_reproduced_where_our_interval_holds_it(
    tmp_path, scores, scale, match
):
    content = result(planned(tmp_path, {"gar": scores}, scale), [])
    [row] = [row for row in rows(content) if row.paper is not None]
    assert (row.arm, row.metric, row.match) == ("gar", "score", match)
    assert row.paper is not None
    assert row.paper["value"] == PRINTED


def test_the_page_says_what_was_not_reproduced_what_failed_and_on_what_it_ran(tmp_path):
    made = planned(tmp_path, {"gar": [3.0, 3.1, 3.2], "plain": [1.0, None, 1.1]})
    store(tmp_path, result(made, [Failure("plain", 1, "RuntimeError: no | more")]))
    text = write_page(tmp_path).read_text(encoding="utf-8")
    for part in (
        "| [tiny](#tiny-mini) | mini |",
        "| **undecided** |",
        "## tiny, mini",
        "| gar | score | 0.65 | 3.100 ± 0.100 | 3 | not reproduced |",
        "| plain | score | – | 1.050 ± 0.071 | 2 (1 not finite or failed) | – |",
        "not reproduced: score of gar.",
        "* Failed: plain, seed 1: RuntimeError: no | more",
        "CPU (x), one thread",
        "12 seconds of jobs",
        "Settings: gain = 1.0, epochs = 4",
        "![Series of tiny over training](../results/mini/tiny.svg)",
        "Müller et al. 2021",
    ):
        assert part in text, part


def test_the_page_is_the_same_for_the_same_results_and_in_a_fixed_order(tmp_path):
    for scale in ("paper", "smoke", "mini"):
        made = planned(tmp_path / scale, {"gar": [3.0, 3.1]}, scale)
        store(tmp_path, result(made, []))
    first = write_page(tmp_path).read_bytes()
    assert write_page(tmp_path).read_bytes() == first
    headings = [line for line in first.decode().splitlines() if line.startswith("## ")]
    assert headings == [
        "## Every claim",
        *(f"## tiny, {scale}" for scale in ("smoke", "mini", "paper")),
    ]


def test_other_files_are_passed_over_and_damaged_ones_named(tmp_path):
    (tmp_path / "results" / "mini").mkdir(parents=True)
    other = tmp_path / "results" / "mini" / "other.json"
    other.write_text('{"arms": {}}')
    assert stored_results(tmp_path) == []
    other.write_text("{")
    with pytest.raises(UsageError, match=r"other\.json is damaged"):
        stored_results(tmp_path)


def test_a_claim_that_is_not_the_papers_is_judged_and_marked_but_decides_nothing(tmp_path):
    made = planned(tmp_path, {"gar": [3.0, 3.1], "plain": [1.0, 1.1]})
    first, second = RECIPE.claims
    ours = recipe(claims=(first, second._replace(of_paper=False)))
    content = result(made._replace(recipe=ours), [])
    assert [claim["verdict"] for claim in content["claims"]] == ["holds", "does not hold"]
    assert content["claim"]["verdict"] == "holds"
    assert content["claim"]["text"] == first.text
    assert f"**Claim:** (Not the paper's.) {second.text}" in page([content])


def test_a_drawing_is_kept_once_of_the_first_seed_that_has_it(tmp_path):
    made = planned(tmp_path, {"gar": [None, 3.0, 3.1]})
    for job in made.jobs:
        if job.file.exists():
            content = json.loads(job.file.read_text())
            write_json(job.file, content | {"drawings": {"map": job.seed, "other": 0}})
    shows = recipe(plots=(Panel("Map", "gar", "map"), Panel("No", "gar", "none")))
    content = result(made._replace(recipe=shows), [])
    assert content["drawings"] == {"gar": {"map": 1}}
    assert "![Figures of tiny" in page([content])


def test_a_result_is_plain_json(tmp_path):
    content = result(planned(tmp_path, {"gar": [3.0, 3.1]}), [])
    again = json.loads(json.dumps(content, allow_nan=False))
    assert page([again]) == page([content])


def test_the_published_page_is_the_one_its_results_make():
    published = ROOT / "docs" / "results.md"
    if not published.exists():
        pytest.skip("nothing is published yet")
    made = page(stored_results(ROOT), compare_ideas(ROOT))
    assert published.read_text(encoding="utf-8") == made
