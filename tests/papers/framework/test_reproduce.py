"""``python -m papers reproduce``: runs what is missing, keeps the rest, names what fails."""

import json
import os
import re
import signal
import sys
import time

import pytest
from joblib.externals.loky import reusable_executor
from rich.console import Console

from papers.__main__ import main
from papers.catalogue import RECIPES, load_recipe
from papers.framework import jobs as running
from papers.framework.args import Reproduce
from papers.framework.jobs import Failure
from papers.framework.plan import Job
from papers.framework.reproduce import print_result, reproduce
from tests.cli.train.killing import child, ended
from tests.trained import found, one_line, run_papers

ARMS = ("plain", "gar", "broken")
SMALL = ("--seeds", 2, "--jobs", 1)


def all_jobs(seeds: int) -> list[str]:
    return sorted(f"{arm}-{seed}" for arm in ARMS for seed in range(seeds))


def stored(place, scale: str = "mini") -> dict:
    text = (place.out / "results" / scale / "tiny.json").read_text(encoding="utf-8")
    assert "NaN" not in text
    return json.loads(text)


def test_every_arm_runs_with_every_seed_in_processes_of_one_thread(place):
    answer = place.reproduce("--seeds", 3, "--jobs", 2)
    assert answer.code == 0, answer
    assert place.ran() == all_jobs(3)
    content = stored(place)
    assert list(content["arms"]) == list(ARMS)
    assert [len(v) for arm in content["arms"].values() for v in arm.values()] == [3] * 6
    assert content["arms"]["broken"]["score"] == [None] * 3
    assert content["seeds"] == [0, 1, 2]
    assert content["claim"]["verdict"] == "does not hold"
    assert [claim["verdict"] for claim in content["claims"]] == ["holds", "does not hold"]
    assert {"text", "rule", "verdict"} == content["claim"].keys()
    assert content["versions"]["torch"]
    assert content["seconds"] >= 0
    assert "one thread" in content["hardware"][0]


def test_the_papers_number_ours_and_the_verdict_are_printed(place):
    answer = place.reproduce("--seeds", 3, "--jobs", 1)
    shown = " ".join(answer.out.split())
    assert re.search(r"gar score 0\.65 6\d\.\d\d ± 0\.\d+ 3 not reproduced", shown)
    for part in (
        "1 of 9: plain, seed 0",
        "Claim: Gain is gained. Verdict: holds",
        "score of gar above score of plain by more than 0.5: holds; difference 0.500",
        "90% interval",
        "Plain wins. Verdict: does not hold",
        "one-sided t-test, paired by seed",
        "0 of 1 printed numbers lie within our intervals; not reproduced: score of gar.",
        "Written: results/mini/tiny.json",
        "Written: docs/results.md",
    ):
        assert part in shown
    assert "loss of broken" not in shown


def test_a_second_run_repeats_nothing_and_finds_the_same(place):
    place.reproduce(*SMALL)
    place.ran()
    before = found(place.out)
    answer = place.reproduce(*SMALL)
    assert answer.code == 0
    assert "6 of 6 jobs were finished before" in answer.out
    assert place.ran() == []
    assert found(place.out) == before


def test_only_what_is_missing_runs(place):
    place.reproduce(*SMALL)
    place.ran()
    [job] = place.out.glob("runs/reproduce/mini/*/gar-seed1.json")
    job.unlink()
    place.reproduce("--seeds", 3, "--jobs", 1)
    assert place.ran() == sorted(["gar-1", *(f"{arm}-2" for arm in ARMS)])
    assert len(stored(place)["arms"]["gar"]["score"]) == 3


def test_a_changed_setting_uses_no_old_number(place):
    place.reproduce(*SMALL)
    place.ran()
    answer = place.reproduce(*SMALL, "--set", "gain=0", "--out", "elsewhere")
    assert answer.code == 0, answer
    assert place.ran() == all_jobs(2)
    assert place.reproduce(*SMALL, "--set", "gain=3", "--out", "elsewhere").code == 0
    assert place.ran() == all_jobs(2)
    assert stored(place)["settings"]["gain"] == 1.0
    other = json.loads((place.out / "elsewhere/results/mini/tiny.json").read_text())
    assert other["settings"]["gain"] == 3.0
    page = (place.out / "elsewhere/docs/results.md").read_text(encoding="utf-8")
    assert "Not the scale's own settings: gain" in page


def test_a_failing_job_is_told_and_does_not_lose_the_others(place):
    (place.switches / "fail-gar-1").touch()
    answer = place.reproduce("--seeds", 2, "--jobs", 2)
    assert answer.code == 1
    assert "FAILED gar, seed 1: RuntimeError: the disk is on fire" in answer.out
    assert "Traceback (most" not in answer.out + answer.err
    content = stored(place)
    assert content["arms"]["gar"]["score"][1] is None
    assert content["arms"]["plain"]["score"][1] is not None
    assert [claim["verdict"] for claim in content["claims"]] == ["undecided", "undecided"]
    [trace] = place.out.glob("runs/reproduce/mini/*/gar-seed1.error.txt")
    assert "in steer" in trace.read_text()
    page = (place.out / "docs/results.md").read_text(encoding="utf-8")
    assert "* Failed: gar, seed 1: RuntimeError" in page
    assert "1 (1 not finite or failed)" in page
    (place.switches / "fail-gar-1").unlink()
    place.ran()
    assert place.reproduce(*SMALL).code == 0
    assert place.ran() == ["gar-1"]
    assert not trace.exists()
    assert stored(place)["failed"] == []


def test_a_process_that_dies_is_told_with_its_job(place):
    (place.switches / "die-broken-1").touch()
    answer = place.reproduce("--seeds", 2, "--jobs", 2)
    assert answer.code == 1
    assert "FAILED broken, seed 1: its process died (killed" in answer.out
    assert stored(place)["arms"]["broken"]["loss"][1] is None
    (place.switches / "die-broken-1").unlink()
    place.ran()
    assert place.reproduce("--seeds", 2, "--jobs", 2).code == 0
    again = place.ran()
    assert "broken-1" in again
    assert len(again) <= 2  # the other process may have been in the middle of a job


def test_a_job_that_had_failed_before_a_process_died_keeps_its_reason(tmp_path):
    job = Job(tmp_path, "gar", 0)
    assert running._died(job, "died") == Failure("gar", 0, "died")
    job.error_file.write_text("Traceback\n  x\nValueError: no\n")
    assert running._died(job, "died") == Failure("gar", 0, "ValueError: no")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_stopped_goes_on_with_what_is_missing(place, how):
    (place.switches / "wait-gar-1").touch()
    read, write = os.pipe()

    def act() -> int:
        os.setsid()
        reusable_executor._executor = None  # its processes are those of this one's parent
        for stream in (1, 2):
            os.dup2(write, stream)
        with os.fdopen(1, "w") as sys.stdout, os.fdopen(2, "w") as sys.stderr:
            return main(["reproduce", "tiny", "--seeds", "2", "--jobs", "2"])

    pid = child(act)
    os.close(write)
    jobs = place.out / "runs/reproduce/mini"
    deadline = time.monotonic() + 90
    while len(list(jobs.glob("*/*-seed*.json"))) < 5:
        assert time.monotonic() < deadline
        assert ended(pid, within=0) is None
        time.sleep(0.1)
    (os.killpg if how == signal.SIGINT else os.kill)(pid, how)  # Ctrl-C reaches the whole group
    with os.fdopen(read) as stream:
        said = stream.read()  # until the last of its processes has ended
    code = ended(pid, within=60)
    if how == signal.SIGINT:
        assert code == 130, said
        assert "Traceback" not in said
        assert "goes on with what is missing" in said
    else:
        assert code == -how
    assert not (place.out / "results").exists()
    (place.switches / "wait-gar-1").unlink()
    place.ran()
    assert place.reproduce(*SMALL).code == 0
    assert place.ran() == ["gar-1"]


def test_smoke_decides_nothing(place):
    answer = place.reproduce(*SMALL, "--scale", "smoke")
    assert answer.code == 0
    content = stored(place, "smoke")
    assert content["claim"]["verdict"] == "undecided"
    judged = [j["verdict"] for claim in content["claims"] for j in claim["comparisons"]]
    assert judged == ["undecided"] * 3
    assert "smoke" in content["claim"]["rule"]
    assert "1 of 1" not in answer.out
    assert "1 open" in answer.out


def test_a_damaged_job_is_told(place):
    place.reproduce(*SMALL)
    [job] = place.out.glob("runs/reproduce/mini/*/gar-seed1.json")
    for text in ("{", "[]", '{"metrics": {"score": 1}}'):
        job.write_text(text)
        one_line(place.reproduce(*SMALL), "gar-seed1.json", "Delete it")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["gar-splitz"], ["recipe 'gar-splitz'", "Did you mean 'gar-splits'?", "tiny"]),
        (["tiny", "--scale", "minni"], ["scale 'minni'", "Did you mean 'mini'?", "paper"]),
        (["tiny", "--backend", "rai"], ["backend 'rai'", "Did you mean 'ray'?", "processes"]),
        (["tiny", "--device", "gpu"], ["device 'gpu'", "cpu"]),
        (["tiny", "--device", "cuda"], ["cuda", "none"]),
        (["tiny", "--seeds", 0], ["seeds", "at least 1"]),
        (["tiny", "--jobs", 0], ["jobs", "at least 1"]),
        (["tiny", "--set", "gain=2"], ["--set", "--out"]),
        (["tiny", "--set", "gian=2", "--out", "x"], ["gian", "did you mean 'gain'?"]),
        (["tiny", "--out", "file"], ["file"]),
    ],
)
def test_wrong_use_costs_one_line(place, monkeypatch, words, parts):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (place.out / "file").touch()
    one_line(run_papers("reproduce", *words), *parts)
    assert list(place.out.iterdir()) == [place.out / "file"]


def test_a_narrow_terminal_gets_whole_numbers(place):
    console = Console(force_terminal=True, record=True, width=40)
    asked = Reproduce("tiny", seeds=3, jobs=1, out=place.out)
    print_result(console, reproduce(load_recipe("tiny"), asked, console))
    assert "arm: gar; metric: score; paper: 0.65; ours, mean ± std: 6" in console.export_text()


def test_a_terminal_sees_a_bar(place):
    console = Console(force_terminal=True, record=True, width=80)
    asked = Reproduce("tiny", seeds=1, jobs=1, out=place.out)
    came = reproduce(load_recipe("tiny"), asked, console)
    assert not came.failures
    assert "3/3" in console.export_text()


@pytest.mark.usefixtures("place")
def test_every_recipe_there_is_is_listed_with_its_minutes():
    answer = run_papers("list")
    assert answer.code == 0
    for name in RECIPES:
        assert name in answer.out
    assert "mini 0.1" in answer.out
    assert "Nothing is learned" in answer.out


@pytest.mark.parametrize("words", [["reproduce"], ["reproduce", "gar-splits", "--nonsense"]])
def test_words_that_do_not_parse_are_told_without_a_traceback(place, words):
    answer = run_papers(*words)
    assert answer.code == 2
    assert "Traceback" not in answer.err
    assert "help" in answer.err
    assert list(place.out.iterdir()) == []
