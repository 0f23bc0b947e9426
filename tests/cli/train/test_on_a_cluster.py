"""Students trained on a Ray cluster: here of two nodes of one CPU each, on this machine."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.train.conftest import TAUGHT
from tests.clusters import RAY_WARNS, Nodes, for_nodes, require_ray, two_nodes
from tests.trained import QUICK, assert_same_run, found, one_line, run, unfinished
from tutelage.errors import MissingExtraError, UsageError
from tutelage_cli.runner import ray_tasks as on_ray
from tutelage_cli.runner.ray_tasks import RayTasks, WorkerFailure, ray_tasks

pytestmark = RAY_WARNS
BOTH = [*QUICK[:-1], "2"]
"""a student on each of two nodes"""
RAY = ["--backend", "ray"]
FOCAL = ["--teacher", "focal", "--epochs", 4, "--student"]
SLOW = """
import os, time, uuid
from pathlib import Path
import ray
from torch import nn

class Slow(nn.Sequential):
    def __init__(self, *layers):
        super().__init__(*layers)
        self.name = uuid.uuid4().hex

    def forward(self, images):
        if self.training and ray.is_initialized():
            time.sleep(0.2)
            node = ray.get_runtime_context().get_node_id()
            with Path(__file__).with_name("steps").open("a") as file:
                file.write(f"{os.getpid()} {node} {self.name}\\n")
        return super().forward(images)

def build(classes, channels, size):
    return Slow(nn.Flatten(), nn.Linear(channels * size * size, classes))
"""
"""a student of 0.2 s a step, which notes each of them with its node"""
STEPS = 20
"""of each such student"""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with two_nodes() as nodes:
        yield nodes


@pytest.fixture(scope="module")
def tasks(nodes) -> Iterator[RayTasks]:  # noqa: ARG001 - it connects this process
    with ray_tasks("cpu") as tasks:
        yield tasks


def test_a_missing_ray_is_told_with_the_extra_that_brings_it(pets, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    out = tmp_path / "run"
    answer = run("train", pets, *QUICK, *RAY, "--out", out)
    one_line(answer, "ray is not installed", ".[cluster]")
    assert not out.exists()


def test_an_address_at_which_nothing_listens_is_told_in_one_line(pets, tmp_path, monkeypatch):
    monkeypatch.setattr(require_ray(), "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    answer = run("train", pets, *QUICK, *RAY, "--out", tmp_path / "run")
    one_line(answer, "127.0.0.1:9", "Connection refused", "ray start --head")


@pytest.mark.usefixtures("nodes")
def test_students_on_two_nodes_are_those_of_this_machine(trained, pets, tmp_path):
    out = tmp_path / "run"
    answer = run("train", pets, *BOTH, *TAUGHT, *RAY, "--out", out)
    assert answer.code == 0, answer
    assert "; 2 at a time" in answer.out
    assert_same_run(trained, out)
    assert found(out).keys() == found(trained).keys()


@pytest.mark.usefixtures("nodes")
def test_controls_that_go_on_from_other_students_are_those_of_this_machine(pets, tmp_path):
    words = ["train", pets, *BOTH, "--controls", "fine-tuned", "cross-fitted", "--folds", 2]
    for out, more in ((tmp_path / "here", []), (tmp_path / "there", RAY)):
        answer = run(*words, *more, "--out", out)
        assert answer.code == 0, answer
    assert_same_run(tmp_path / "here", tmp_path / "there")


def test_a_node_that_dies_costs_its_own_student_its_last_steps(nodes, pets, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    words = ["train", pets, *BOTH, *FOCAL, f"{tmp_path / 'slow.py'}:build"]
    out, whole = tmp_path / "run", tmp_path / "whole"
    killed: list[str] = []

    def kill_after_first_epochs() -> None:
        while len(list(out.glob("students/*/metrics.jsonl"))) < 2:
            time.sleep(0.02)
        killed.append(nodes.kill_second())

    killer = threading.Thread(target=kill_after_first_epochs, daemon=True)
    killer.start()
    answer = run(*words, *RAY, "--out", out)
    killer.join(60)
    nodes.add_second()
    assert answer.code == 0, answer
    steps = [line.split() for line in (tmp_path / "steps").read_text().splitlines()]
    steps = [(node, name) for pid, node, name in steps if int(pid) != os.getpid()]
    taken, places = Counter(name for _, name in steps), {name: node for node, name in steps}
    (lost,) = [name for name, node in places.items() if node == killed[0]]
    again, other = sorted(taken.keys() - {lost}, key=lambda name: taken[name])
    assert taken[other] == STEPS  # it was not disturbed
    assert 5 <= taken[lost] < STEPS
    assert STEPS - taken[lost] <= taken[again] < STEPS  # from its checkpoint, not its start
    assert run(*words, "--out", whole).code == 0
    assert_same_run(whole, out)


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_the_run_goes_on_there(pets, tmp_path, ending):
    (tmp_path / "slow.py").write_text(SLOW)
    words = ["train", pets, *BOTH, *FOCAL, f"{tmp_path / 'slow.py'}:build"]
    out, whole = tmp_path / "run", tmp_path / "whole"
    with subprocess.Popen(
        [sys.executable, "-m", "tutelage", *map(str, [*words, *RAY, "--out", out])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        limit = time.monotonic() + 120
        while not list(out.glob("students/*/metrics.jsonl")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < limit
            time.sleep(0.02)
        os.killpg(process.pid, ending)
        printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors == ""
    assert f"Stopped. Continue with: tutelage train --resume {out} --backend ray" in printed
    answer = run("train", "--resume", out, *RAY)
    assert answer.code == 0, answer
    assert run(*words, "--out", whole).code == 0
    assert_same_run(whole, out)


@pytest.mark.usefixtures("nodes")
def test_a_run_of_this_machine_is_continued_on_a_cluster(trained, tmp_path):
    out = tmp_path / "run"
    unfinished(trained, out)
    assert run("train", "--resume", out, *RAY).code == 0
    assert_same_run(trained, out)


@pytest.mark.usefixtures("nodes")
def test_a_folder_that_the_nodes_do_not_share_is_refused(pets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = Path("/proc/self/cwd/run")  # every process has its own
    answer = run("train", pets, *QUICK, *RAY, "--out", out)
    one_line(answer, out, "it is not there", "all nodes share", f"--resume {out}")
    assert not list((tmp_path / "run").glob("cluster-check*"))
    assert not (tmp_path / "run" / "students").exists()


@pytest.mark.usefixtures("nodes")
def test_a_folder_is_missed_on_a_node_that_joined_later(tasks, tmp_path):
    with pytest.raises(UsageError, match="it is not there"):
        tasks.results(on_ray.require_run, [(tmp_path / "gone",)])


@pytest.mark.usefixtures("nodes")
def test_a_cluster_without_a_gpu_is_refused_where_students_need_one():
    said = "no node of the Ray cluster offers a GPU"
    with pytest.raises(UsageError, match=said), ray_tasks("cuda"):
        pass


def fault(kind: str) -> None:
    if kind == "usage":
        raise UsageError("the way out")
    if kind == "own":
        raise RuntimeError("the student's own fault")
    if kind == "no pickle":
        raise MissingExtraError("timm", "timm")
    os._exit(1)


def test_what_a_call_raises_is_raised_here(tasks):
    with pytest.raises(UsageError, match=r"^the way out$"):
        tasks.results(fault, [("usage",)])
    with pytest.raises(RuntimeError, match=r"^the student's own fault$"):
        tasks.results(fault, [("own",)])
    with pytest.raises(UsageError, match=r"timm is not installed[^\n]*$"):
        tasks.results(fault, [("no pickle",)])


def test_a_call_whose_process_dies_at_every_attempt_costs_no_other(tasks, monkeypatch):
    monkeypatch.setattr(on_ray, "RESTARTS", 1)
    died, fine = tasks.results(lambda kind: kind or fault("exit"), [("",), ("fine",)])
    assert isinstance(died, WorkerFailure)
    assert fine == "fine"


@pytest.mark.usefixtures("nodes")
def test_students_that_die_at_every_attempt_are_named(pets, tmp_path, monkeypatch):
    died = [WorkerFailure("NodeDiedError"), True]
    monkeypatch.setattr(RayTasks, "results", lambda *_: died)
    out = tmp_path / "run"
    answer = run("train", pets, *QUICK, "--teacher", "focal", *RAY, "--out", out)
    one_line(
        answer,
        "untaught, seed 0 (NodeDiedError)",
        f"tutelage train --resume {out} --backend ray",
    )
    assert "focal" not in answer.err


def alone(folder: Path) -> bool:
    """True; it raises where another call runs at the same time."""
    own = folder / "running"
    own.mkdir()
    time.sleep(0.1)
    own.rmdir()
    return True


def test_no_more_calls_run_at_once_than_asked_for(tasks, tmp_path):
    assert tasks.slots == 2
    assert tasks.results(alone, [(tmp_path,)] * 4, at_once=1) == [True] * 4


def sleeping(seconds: float) -> None:
    time.sleep(seconds)


def test_calls_that_find_no_free_node_end_where_they_are_to_stop(tasks, monkeypatch):
    monkeypatch.setattr(on_ray, "GRACE", 0.0)
    assert tasks.results(sleeping, [(600,)] * 3, stopped=lambda: True) == [None] * 3


def test_ray_of_this_machine_serves_where_no_cluster_is_named(pets, trained, tmp_path):
    require_ray()
    out = tmp_path / "run"
    code = "import sys; from tutelage_cli.__main__ import main; sys.exit(main())"
    with pytest.MonkeyPatch.context() as patch:
        for_nodes(patch)
        words = ["train", pets, *BOTH, *TAUGHT, *RAY, "--out", out, "--json"]
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done
    assert done.stdout.startswith("{"), done.stdout
    assert_same_run(trained, out)
