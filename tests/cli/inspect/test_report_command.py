"""``tutelage report``: runs side by side, and differences where they may be taken."""

import json
import shutil
from statistics import fmean, stdev
from typing import Any

import pytest
from scipy import stats

from tests.cli.inspect.conftest import SHORT
from tests.trained import content, found, one_line, run

GAINS = {0: 0.05, 1: 0.03}


@pytest.fixture
def better(noisy, tmp_path):
    """The same run with another learning rate, and taught students better by ``GAINS``."""
    shutil.copytree(noisy, tmp_path / "better")
    settings = tmp_path / "better" / "settings.json"
    settings.write_text(json.dumps(content(settings) | {"lr": 0.05}))
    for seed, gain in GAINS.items():
        file = tmp_path / "better" / "students" / f"margin-loss-seed{seed}" / "result.json"
        result = content(file)
        file.write_text(json.dumps(result | {"test_accuracy": result["test_accuracy"] + gain}))
    return tmp_path / "better"


def compare(tmp_path, *words):
    """What is told as JSON."""
    answer = run("report", *words, "--out", tmp_path / "page.html", "--json")
    assert answer.code == 0, answer
    return json.loads(answer.out)


def test_differences_are_those_of_a_paired_t_test(noisy, better, tmp_path) -> None:
    told = compare(tmp_path, noisy, better)
    found_ = {(d["what"], d["baseline"]): d for d in told["differences"]}
    one = found_["better: margin-loss", "noisy: margin-loss"]
    gains = list(GAINS.values())
    low, high = stats.t.interval(0.9, 1, fmean(gains), stdev(gains) / 2**0.5)
    assert one["seeds"] == 2
    assert (one["mean"], one["low"], one["high"]) == pytest.approx((0.04, low, high))
    tested: Any = stats.ttest_1samp(gains, 0, alternative="greater")
    wanted = tested.pvalue
    assert one["p"] == pytest.approx(wanted)
    assert one["verdict"] == ("higher" if low > 0 else "within chance")
    back = {
        (d["what"], d["baseline"]): d for d in compare(tmp_path, better, noisy)["differences"]
    }
    other = back["noisy: margin-loss", "better: margin-loss"]
    assert (other["mean"], other["p"]) == pytest.approx((-0.04, wanted))
    assert found_["better: untaught", "noisy: untaught"]["mean"] == 0
    for name, folder in (("noisy", noisy), ("better", better)):
        within = found_[f"{name}: margin-loss", f"{name}: untaught"]["mean"]
        results = [
            [
                content(folder / "students" / f"{arm}-seed{s}" / "result.json")["test_accuracy"]
                for s in (0, 1)
            ]
            for arm in ("margin-loss", "untaught")
        ]
        assert within == pytest.approx(fmean(results[0]) - fmean(results[1]))


def test_what_differs_is_told_and_nothing_else(noisy, better, tmp_path) -> None:
    told = compare(tmp_path, noisy, better)
    assert told["differing"] == {"lr": ["0.1", "0.05"]}
    arm = told["runs"][1]["arms"]["margin-loss"]
    assert arm["seeds"] == [0, 1]
    assert arm["test_accuracy_mean"] == pytest.approx(fmean(arm["test_accuracy"]))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for part in ("noisy: margin-loss", "better: untaught", "What differs", "<svg", "0.05"):
        assert part in page


def test_what_cannot_be_paired_is_said(noisy, better, tmp_path) -> None:
    file = better / "settings.json"
    whole = content(file)
    for change, part in (({"held_out": 9}, "held_out"), ({"noise": "none"}, "noise")):
        file.write_text(json.dumps(whole | change))
        told = compare(tmp_path, noisy, better)
        assert any("not compared" in n and part in n for n in told["notes"])
        assert all(
            d["what"].split(":")[0] == d["baseline"].split(":")[0] for d in told["differences"]
        )
    file.write_text(json.dumps(whole))
    facts = better / "environment.json"
    facts.write_text(json.dumps(content(facts) | {"data": "0" * 64}))
    told = compare(tmp_path, noisy, better)
    assert any("data are not the same" in note for note in told["notes"])
    assert "digest of the data" in told["differing"]


def test_an_unfinished_run_is_compared_as_far_as_it_is(noisy, better, tmp_path) -> None:
    (better / "students" / "margin-loss-seed0" / "result.json").unlink()
    told = compare(tmp_path, noisy, better)
    assert any("better is not finished: 1 of its students" in note for note in told["notes"])
    one = next(d for d in told["differences"] if d["baseline"] == "noisy: margin-loss")
    assert one["verdict"] == "of one seed"
    assert (one["seeds"], one["low"], one["p"]) == (1, None, None)
    assert one["mean"] == pytest.approx(GAINS[1])


def test_runs_of_one_name_are_told_apart(noisy, better, tmp_path) -> None:
    (tmp_path / "deep").mkdir()
    better.rename(tmp_path / "deep" / "noisy")
    told = compare(tmp_path, noisy, tmp_path / "deep" / "noisy")
    assert [r["name"] for r in told["runs"]] == [f"{noisy.parent.name}/noisy", "deep/noisy"]


def test_what_is_printed_is_the_tables_and_the_page(noisy, better, tmp_path) -> None:
    page = tmp_path / "page.html"
    answer = run("report", noisy, better, "--out", page)
    assert answer.code == 0, answer
    for part in ("Reading 2 runs", "noisy: untaught", "+4.00", "lr", f"Page: {page}"):
        assert part in answer.out
    assert "\x1b" not in answer.out
    quiet = run("report", noisy, better, "--out", page, "--quiet")
    assert "Reading" not in quiet.out
    assert quiet.out in answer.out


def test_wrong_use_of_report_is_told(noisy, better, tmp_path) -> None:
    before = found(noisy)
    one_line(run("report", noisy, noisy), "twice")
    one_line(run("report", noisy, tmp_path / "nowhere"), "nowhere")
    one_line(run("report", noisy, tmp_path), "settings.json")
    one_line(run("report", better, "--out", noisy / "settings.json" / "x"), "--out")
    file = better / "students" / "untaught-seed0" / "metrics.jsonl"
    file.write_text("{}\n" * int(SHORT[1]))
    one_line(run("report", better, "--out", tmp_path / "p.html"), file, "is damaged")
    for student in (better / "students").iterdir():
        (student / "result.json").unlink()
    one_line(run("report", better), "no finished student", "--resume")
    assert found(noisy) == before
