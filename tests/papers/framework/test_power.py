"""An undecided comparison says what would decide it, or that nothing here would."""

import json
from pathlib import Path

import pytest

from papers.catalogue import load_recipe
from papers.framework.page import needed_seeds
from papers.framework.power import (
    MEASURED,
    MOST_HOURS,
    MOST_SEEDS,
    PRINTED,
    SampleSize,
    decisive_comparison,
    judged_with_power,
    printed_effect,
    sample_size,
    seconds_per_seed,
)
from papers.framework.results import evaluated, stored_results
from tests.papers.framework.tiny import recipe
from tests.trained import one_line, run_papers
from tutelage.errors import UsageError
from tutelage_cli.claims import (
    FAILS,
    HOLDS,
    SMALLER,
    UNDECIDABLE,
    UNDECIDED,
    Claim,
    Comparison,
    combined_verdict,
    evaluate,
)
from tutelage_cli.intervals import power, values_needed

ROOT = Path(__file__).parents[3]
ABOVE = Comparison(("gar", "score"), "above", 0.0)
SECONDS = 60.0  # of all arms with one seed


def judged(*differences: float | None):
    return evaluate(ABOVE, {"gar": {"score": differences}})


def test_the_papers_effect_is_what_is_to_be_found():
    found = judged(0.1, -0.2, 0.3)
    need = sample_size(found, 0.2, SECONDS)
    assert found.spread is not None
    assert need is not None
    _, source, _, seeds, fewest, most, hours = need
    assert source == PRINTED
    assert seeds == values_needed(0.2, found.spread)
    assert seeds is not None
    assert fewest is not None
    assert most is not None
    assert fewest < seeds < most
    assert hours == pytest.approx(seeds * 60 / 3600)


@pytest.mark.parametrize("printed", [None, 5.0])
def test_the_effect_seen_counts_where_none_is_printed_or_the_papers_would_have_been_found(
    printed,
):
    found = judged(0.1, -0.2, 0.3)
    need = sample_size(found, printed, SECONDS)
    assert need is not None
    assert (need.source, need.effect, need.printed) == (MEASURED, found.mean, printed)
    assert found.spread is not None
    assert found.mean is not None
    if printed:
        assert power(printed, found.spread, found.n) > 0.8
        assert "the paper's 5.000 would have been found" in needed_seeds(
            judged_with_power(found, printed, SECONDS)
        )


def test_more_seeds_or_hours_than_the_bounds_cannot_be_decided_here():
    near, far = judged(1.0, -1.0, 0.05), judged(1.0, -1.0, 0.5)
    seeds = sample_size(near, None, SECONDS)
    assert seeds is not None
    assert seeds.seeds is not None
    assert seeds.seeds > MOST_SEEDS
    assert judged_with_power(near, None, SECONDS)["verdict"] == UNDECIDABLE
    assert judged_with_power(far, None, SECONDS)["verdict"] == UNDECIDED
    hours = sample_size(far, None, SECONDS)
    assert hours is not None
    assert hours.hours is not None
    dear = SECONDS * (MOST_HOURS + 1) / hours.hours
    assert judged_with_power(far, None, dear)["verdict"] == UNDECIDABLE


@pytest.mark.parametrize(
    ("differences", "printed", "text"),
    [
        ((0.0, 0.0, 0.0), 0.2, "every seed gave the same difference"),
        ((0.0, 0.0, 0.0), None, "every seed gave the same difference"),
        ((1.0, -1.0, 0.3), 0.0, "the difference, the paper's, is 0"),
        ((1.0, -1.0, 0.0), None, "the difference, seen here, is 0"),
        ((1.0, -1.0, 1e-4), None, "more than 1,000,000 seeds"),
    ],
)
def test_what_no_number_of_seeds_finds_cannot_be_decided_here(differences, printed, text):
    found = judged_with_power(judged(*differences), printed, SECONDS)
    assert found["verdict"] == UNDECIDABLE
    assert found["needed"]["seeds"] is None
    assert text in needed_seeds(found)


@pytest.mark.parametrize(
    ("differences", "printed", "verdict"),
    [
        ((0.1, -0.2, 0.3), 5.0, SMALLER),
        ((0.1, -0.2, 0.3), 0.99, SMALLER),  # the interval ends at .491
        ((0.1, -0.2, 0.3), 0.98, UNDECIDED),
        ((0.1, -0.2, 0.3), None, UNDECIDED),
        ((0.1, 0.2, 0.3), 5.0, HOLDS),
        ((-0.1, -0.2, -0.3), 5.0, FAILS),
        ((0.0, 0.0, 0.0), 5.0, UNDECIDABLE),  # students that learned nothing exclude nothing
    ],
)
def test_an_interval_of_both_signs_below_half_of_the_papers_effect_excludes_its_size(
    differences, printed, verdict
):
    found = judged_with_power(judged(*differences), printed, SECONDS)
    assert found["verdict"] == verdict
    assert ("half of the paper's" in found["why"]) == (verdict == SMALLER)


@pytest.mark.parametrize("differences", [(0.3,), (0.3, None, 0.1)])
def test_without_a_spread_it_is_undecided_and_says_why(differences):
    found = judged_with_power(judged(*differences), 0.2, SECONDS)
    assert (found["verdict"], found["needed"]) == (UNDECIDED, None)
    assert needed_seeds(found) == found["why"]
    assert "seed" in needed_seeds(found)


@pytest.mark.parametrize("differences", [(1.0, 1.1, 1.2), (-1.0, -1.1, -1.2), (1.0, 1.0)])
def test_what_is_decided_needs_nothing(differences):
    found = judged_with_power(judged(*differences), 0.2, SECONDS)
    assert found["verdict"] in (HOLDS, FAILS)
    assert found["needed"] is None
    assert needed_seeds(found) == "–"


def test_the_papers_effect_is_of_both_arms_in_the_claimed_direction_less_the_margin():
    rows = {("gar", "score"): ("FC / GAR", "Noisy Split")}
    both = rows | {("plain", "score"): ("FC / NSLR", "Noisy Split")}
    over = Comparison(("plain", "score"), "above", ("gar", "score"), margin=0.1)
    assert printed_effect(recipe(printed=both), over) == pytest.approx(0.86 - 0.65 - 0.1)
    assert printed_effect(recipe(printed=rows), over) is None
    under = Comparison(("gar", "score"), "below", 0.8)
    assert printed_effect(recipe(printed=rows), under) == pytest.approx(0.15)
    other = Comparison(("gar", "loss"), "below", 0.8)
    assert printed_effect(recipe(printed=rows), other) is None
    assert printed_effect(recipe(printed=rows, printed_as={"loss": "score"}), other) == 0.15


def test_one_comparison_that_cannot_be_decided_leaves_the_claim_so_unless_one_fails():
    assert combined_verdict([HOLDS, UNDECIDED, UNDECIDABLE]) == UNDECIDABLE
    assert combined_verdict([UNDECIDABLE, FAILS]) == FAILS
    assert combined_verdict([HOLDS, SMALLER, UNDECIDABLE]) == SMALLER
    assert combined_verdict([SMALLER, FAILS]) == FAILS


def claim(verdict: str, *each: tuple[str, float, int | None]) -> dict:
    """A claim with comparisons of these verdicts, p and seeds needed; 0: none is needed."""
    limits = (None, None, None)
    return {
        "verdict": verdict,
        "comparisons": [
            {
                "verdict": one,
                "p": p,
                "needed": None
                if s == 0
                else SampleSize(1.0, MEASURED, None, s, *limits)._asdict(),
            }
            for one, p, s in each
        ],
    }


@pytest.mark.parametrize(
    ("found", "place"),
    [
        (claim(HOLDS, (HOLDS, 0.01, 0), (HOLDS, 0.04, 0)), 1),
        (claim(FAILS, (HOLDS, 0.01, 0), (FAILS, 0.97, 0), (FAILS, 0.99, 0)), 2),
        (claim(UNDECIDED, (UNDECIDED, 0.2, 30), (UNDECIDED, 0.3, 9), (HOLDS, 0.01, 0)), 0),
        (claim(UNDECIDABLE, (UNDECIDABLE, 0.4, 2000), (UNDECIDABLE, 0.5, None)), 1),
    ],
)
def test_a_claim_shows_the_comparison_that_its_verdict_rests_on(found, place):
    assert decisive_comparison(found) is found["comparisons"][place]


def test_every_published_verdict_is_the_one_that_its_numbers_have():
    for content in stored_results(ROOT):
        again = evaluated(content, load_recipe(content["recipe"]))
        assert json.loads(json.dumps(again)) == content, content["recipe"]


def test_a_result_without_what_a_claim_names_is_refused(place):
    place.reproduce("--seeds", 2, "--jobs", 1)
    [content] = stored_results(place.out)
    named = recipe(claims=(Claim("x", (ABOVE,)),))
    assert evaluated(content, named)["claims"][0]["text"] == "x"
    content["arms"].pop("gar")
    with pytest.raises(UsageError, match=r"no 'gar'.*run it again"):
        evaluated(content, named)


def test_a_result_with_arms_of_a_package_that_is_not_installed_is_left_as_it_is(place):
    place.reproduce("--seeds", 2, "--jobs", 1)
    file = place.out / "results" / "mini" / "tiny.json"
    content = json.loads(file.read_text())
    content["arms"]["other"] = content["arms"]["gar"]
    content["claims"] = []
    file.write_text(json.dumps(content))
    answer = run_papers("claims", "--evaluate")
    assert "tiny, mini: left as it is stored" in answer.out
    assert "no arm other here" in answer.out
    assert json.loads(file.read_text()) == content


def test_claims_are_listed_with_what_would_decide_them(place):
    place.reproduce("--seeds", 3, "--jobs", 1)
    answer = run_papers("claims")
    assert answer.code == 0, answer
    assert "Gain is gained." in answer.out
    assert "Of the papers' 2 claims at scale mini, 1 hold, 1 do not hold" in answer.out
    chosen = json.loads(run_papers("claims", "--undecided", "--json").out)
    assert [one["claims"] for one in chosen["results"]] == [[]]


def test_claims_are_evaluated_again_from_the_stored_numbers(place):
    place.reproduce("--seeds", 2, "--jobs", 1)
    file = place.out / "results" / "mini" / "tiny.json"
    before, shown = file.read_bytes(), (place.out / "docs" / "results.md").read_bytes()
    old = json.loads(before)
    old["claims"][0]["verdict"] = UNDECIDED
    file.write_text(json.dumps(old))
    assert run_papers("claims", "--evaluate").code == 0
    assert file.read_bytes() == before
    assert (place.out / "docs" / "results.md").read_bytes() == shown


@pytest.mark.usefixtures("place")
def test_a_folder_without_results_costs_one_line():
    one_line(run_papers("claims"), "no result", "reproduce", "--out")


def test_two_jobs_run_at_a_time_on_cores_and_one_on_a_card():
    content = {"seconds": 600.0, "seeds": [0, 1, 2], "hardware": ["CPU (x), one thread"]}
    assert seconds_per_seed(content) == 100.0
    assert seconds_per_seed(content | {"hardware": ["NVIDIA H200"]}) == 200.0
