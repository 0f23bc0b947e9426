"""The same command on a Ray cluster, here a local one."""

import sys

from papers.framework import jobs as running
from papers.framework.jobs import Failure, read_record
from papers.framework.plan import Job
from tests.clusters import RAY_WARNS, for_nodes, require_ray
from tests.trained import one_line
from tutelage_cli.runner.ray_tasks import RESTARTS

pytestmark = RAY_WARNS


def test_a_missing_ray_is_told_with_the_extra_that_brings_it(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    one_line(place.reproduce("--backend", "ray"), "ray is not installed", ".[cluster]")


def test_ray_runs_the_jobs_and_finds_what_processes_find(place, monkeypatch):
    require_ray()
    for_nodes(monkeypatch)
    (place.switches / "fail-gar-1").touch()
    answer = place.reproduce("--seeds", 2, "--jobs", 2, "--backend", "ray")
    assert answer.code == 1, answer
    assert "FAILED gar, seed 1: RuntimeError" in answer.out, answer.out
    assert place.ran() == sorted(f"{a}-{s}" for a in ("plain", "gar", "broken") for s in (0, 1))
    (place.switches / "fail-gar-1").unlink()
    (place.switches / "die-gar-1").touch()
    answer = place.reproduce("--seeds", 2, "--jobs", 2, "--backend", "ray")
    assert answer.code == 1, answer
    assert "FAILED gar, seed 1: its process died" in answer.out, answer.out
    assert place.ran() == ["gar-1"] * (1 + RESTARTS)
    (place.switches / "die-gar-1").unlink()
    answer = place.reproduce("--seeds", 2, "--jobs", 2, "--backend", "ray")
    assert answer.code == 0, answer
    assert place.ran() == ["gar-1"]
    first = (place.out / "results/mini/tiny.json").read_text()
    assert place.reproduce("--seeds", 2, "--jobs", 1).code == 0
    assert (place.out / "results/mini/tiny.json").read_text() == first


def test_what_another_machine_measured_is_written_here(tmp_path):
    job = Job(tmp_path, "gar", 0)
    other = Job(tmp_path, "gar", 1)
    record = {"metrics": {"score": 1.0}, "series": {}, "drawings": {}}
    record |= {"seconds": 1.5, "hardware": "CPU (x), one thread", "versions": {}}
    failure = Failure("gar", 1, "RuntimeError: no")
    assert list(running._store_records([job, other], [record, failure])) == [failure]
    assert read_record(job, ["score"]) == record
    assert read_record(other, ["score"]) is None
