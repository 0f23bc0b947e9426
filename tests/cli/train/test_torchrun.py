"""torchrun: a run on two processes is that of one; what cannot be divided is refused."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from torch import nn
from torch.optim import SGD

from tests.cases import close
from tests.cli.train.killing import child, ended
from tests.trained import (
    checkpoint,
    content,
    lines,
    one_line,
    run,
    run_papers,
    students,
    undrawn,
)
from tutelage.errors import UsageError
from tutelage.teachers import Mixup
from tutelage.types import Batch
from tutelage_cli import cli
from tutelage_cli.data.batches import normalised, statistics
from tutelage_cli.data.images import ImageSet
from tutelage_cli.train import student_training
from tutelage_cli.train.arms import build_tutor
from tutelage_cli.train.check import _check_no_rows
from tutelage_cli.train.data_parallel import all_processes, make_tutor, take_part
from tutelage_cli.train.names import BY_BATCH, TAUGHT_BY, USED_BY
from tutelage_cli.train.settings import TrainSettings

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
STUDENT = """from torch import nn


class Double(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.net = nn.Sequential(*parts).double()

    def forward(self, x):
        return self.net(x.double())


def build(classes, channels, size):
    hidden = nn.Linear(channels * size**2, 16), nn.Tanh(), nn.Linear(16, classes)
    return Double(nn.Flatten(), *hidden)


class Viewing(nn.Linear):
    def forward(self, x):
        return super().forward(x.view(len(x), -1))


def viewing(classes, channels, size):
    return Viewing(channels * size**2, classes)


def normalised(classes, channels, size):
    images = nn.Conv2d(channels, 3, 5, stride=3), nn.BatchNorm2d(3), nn.ReLU()
    hidden = nn.Linear(3 * ((size - 2) // 3) ** 2, 16), nn.BatchNorm1d(16), nn.Tanh()
    return Double(*images, nn.Flatten(), *hidden, nn.Linear(16, classes))


def tracked(classes, channels, size):
    norm = nn.InstanceNorm2d(channels, track_running_stats=True)
    return Double(norm, nn.Flatten(), nn.Linear(channels * size**2, classes))


def convolutional(classes, channels, size):
    first = nn.Conv2d(channels, 3, 3), nn.BatchNorm2d(3), nn.ReLU()
    second = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten()
    return Double(*first, *second, nn.Linear(4 * (size - 4) ** 2, classes))
"""
DIGITS = ["--limit", "60", "--batch-size", "15", "--epochs", "3", "--seeds", "1", "--out"]
"""twelve steps in all"""


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A short run on digits; the student, in float64, is of a class that pickle cannot find."""
    (tmp_path / "net.py").write_text(STUDENT)
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # processes are forked
    with undrawn():
        yield ["train", "--student", "net.py:build", *DIGITS]
    torch.set_num_threads(threads)


def two_processes(command: Callable[[], int]) -> list[int]:
    """Start a function in two forks with the variables that torchrun sets; their ids."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def act(rank: int) -> Callable[[], int]:
        def placed() -> int:
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            os.environ |= {
                "WORLD_SIZE": "2",
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
            } | place
            return command()

        return placed

    return [child(act(rank)) for rank in range(2)]


def assert_alike(one: Path, other: Path) -> None:
    """Two runs have the same files, and their numbers agree to 1e-6."""
    assert files_of(one) == files_of(other)
    for a, b in zip(students(one), students(other), strict=True):
        states = [checkpoint(of) for of in (a, b)]
        for part in ("student", "teacher"):
            if want := tensors(states[0]["tutor"][part]):
                close(tensors(states[1]["tutor"][part]), want, 1e-6)
        for table in a.glob("*.parquet"):
            read = [numbers(pq.read_table(of / table.name).to_pydict()) for of in (a, b)]
            assert read[1] == pytest.approx(read[0], rel=1e-6, abs=1e-6, nan_ok=True)
        for of in (lines, lambda folder: content(folder / "result.json")):
            assert numbers(of(b)) == pytest.approx(numbers(of(a)), rel=1e-6, abs=1e-6)
    found = [numbers(content(run_ / "summary.json")) for run_ in (one, other)]
    assert found[1] == pytest.approx(found[0], rel=1e-6, abs=1e-6)


def files_of(run_: Path) -> set[str]:
    return {str(path.relative_to(run_)) for path in run_.rglob("*")}


def tensors(state: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: x for name, x in state.items() if x.is_floating_point()}


def numbers(value: Any) -> list[float]:
    """All numbers in plain values but times and memory."""
    if isinstance(value, dict):
        left_out = {"seconds", "ratio", "memory"}
        return numbers([x for name, x in value.items() if name not in left_out])
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [] if isinstance(value, str) else [float(value)]


def test_a_run_on_two_processes_is_that_of_one(words):
    options = ["--teacher", "margin-loss", "out-of-fold", "--controls", "cross-fitted"]
    options += ["--student", "net.py:normalised"]
    assert run(*words, "one", *options, "--jobs", "1").code == 0
    started = two_processes(partial(cli.main, [*words, "two", *options]))
    assert [ended(pid, within=120) for pid in started] == [0, 0]
    assert_alike(Path("one"), Path("two"))


def steps_of(arm: str, settings: TrainSettings) -> dict[str, Any]:
    """Four steps of an arm, one of them on a single row: what came of them."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (24, 1, 8, 8), generator=generator).to(torch.uint8)
    labels, ids = torch.arange(24) % 3, torch.arange(24)
    data = ImageSet(images, labels, ids, ("a", "b", "c"), "some")
    inputs = normalised(images, *statistics(data))
    tutor = build_tutor(arm, 0, data, settings, 4)
    batches = [
        Batch(inputs[rows], labels[rows], ids[rows], seed)
        for seed, rows in enumerate(ids.split([7, 6, 1, 5, 3, 2]))
    ]
    results = [
        tutor.step(batch, batches[4 + number % 2] if tutor.wants_held_out else None)
        for number, batch in enumerate(batches[:4])
    ]
    rows = {
        name: torch.cat([getattr(result, name) for result in results])
        for name in ("losses", "weights", "ids")
    }
    modules = {"student": tutor.student, "teacher": tutor.teacher}
    return {"rows": rows} | {k: tensors(part.state_dict()) for k, part in modules.items()}


ARMS = [
    *((arm, None) for arm in TAUGHT_BY if arm not in BY_BATCH),
    *((arm, "last") for arm in USED_BY["layers"]),
]


@pytest.mark.usefixtures("words")
def test_every_teacher_teaches_batch_normalised_students_as_in_one_process() -> None:
    settings = TrainSettings(
        student="net.py:convolutional", teacher_every=2, unroll_steps=2, momentum=0.9
    )

    def arms() -> dict[Any, Any]:
        return {
            (arm, layers): steps_of(arm, replace(settings, layers=layers))
            for arm, layers in ARMS
        }

    def command() -> int:
        if int(os.environ["RANK"]):
            return take_part()
        with all_processes(Path("run")):
            torch.save(arms(), "found.pt")
        return 0

    started = two_processes(command)
    assert [ended(pid, within=120) for pid in started] == [0, 0]
    found = torch.load("found.pt")
    for arm, want in arms().items():
        for part, values in want.items():
            if values:
                close(found[arm][part], values, 1e-6)


@pytest.mark.usefixtures("words")
def test_statistics_by_the_rows_of_each_process_are_refused() -> None:
    def command() -> int:
        if int(os.environ["RANK"]):
            return take_part()
        with all_processes(Path("run")), pytest.raises(UsageError) as error:
            steps_of("untaught", TrainSettings(student="net.py:tracked"))
        Path("said").write_text(str(error.value))
        return 0

    assert [ended(pid, within=60) for pid in two_processes(command)] == [0, 0]
    assert "buffer net.0.running_mean becomes another" in Path("said").read_text()


def test_a_run_whose_first_process_is_killed_ends_and_goes_on_under_torchrun(
    words, monkeypatch
):
    options = ["--teacher", "margin-loss", "--controls", "none"]
    assert run(*words, "one", *options, "--jobs", "1").code == 0
    monkeypatch.setattr(student_training, "POLL_EVERY", -1.0)
    monkeypatch.setattr(student_training, "SAVE_EVERY", -1.0)  # saves after each step
    first, other = two_processes(partial(cli.main, [*words, "two", *options]))
    state = Path("two/students/margin-loss-seed0/checkpoint/state.pt")
    while not state.exists():
        assert ended(first, within=0) is None
        time.sleep(0.01)
    os.kill(first, signal.SIGKILL)
    assert ended(first, within=None) == -signal.SIGKILL
    assert ended(other, within=60) == 1
    taken = torch.load(state)["tutor"]["steps"]
    again = [*TORCHRUN, "-m", "tutelage_cli", "train", "--resume", "two"]
    subprocess.run(again, check=True, capture_output=True, timeout=240)
    assert 0 < taken < 12
    assert_alike(Path("one"), Path("two"))


def test_wrong_use_is_said_once_and_no_process_is_left(tmp_path):
    words = [*TORCHRUN, "-m", "tutelage_cli", "train", "nowhere"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    assert "exitcode: 2" in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("tutelage: ")]
    assert len(said) == 1
    assert "nowhere" in said[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--jobs", "2"], ["--jobs 2", "2 processes"]),
        (["--backend", "ray"], ["--backend ray", "2 processes"]),
        (["--device", "cuda:1"], ["--device cuda:1", "give --device cuda"]),
        (["--teacher", "self-paced"], ["--teacher self-paced", "rows of a batch"]),
    ],
)
def test_what_cannot_be_divided_is_refused(tmp_path, monkeypatch, options, parts):
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "WORLD_SIZE": "2",
        "RANK": "0",
        "MASTER_ADDR": "",
        "MASTER_PORT": "",
    }.items():
        monkeypatch.setenv(name, value)
    one_line(run("train", *options), *parts)
    assert list(tmp_path.iterdir()) == []


def test_a_student_that_fails_without_rows_is_refused_where_a_process_may_get_none(
    words, monkeypatch
):
    place = {"WORLD_SIZE": "16", "RANK": "0", "MASTER_ADDR": "", "MASTER_PORT": ""}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    said = ["15 examples only", "16 processes", "0 elements", "x.flatten(1)", "--batch-size"]
    one_line(run(*words, "run", "--student", "net.py:viewing", "--held-out", "20"), *said)


def test_a_teacher_that_mixes_examples_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    student = nn.Linear(2, 2)
    with pytest.raises(UsageError, match="the teacher Mixup relates the rows of a batch"):
        make_tutor(student, SGD(student.parameters()), Mixup(classes=2, alpha=1.0))


def test_a_world_size_that_torchrun_has_not_set_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    one_line(run("train"), "WORLD_SIZE is 2", "RANK is not set", "torchrun")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (run, ["commentary", "learn", "--teacher", "blending"]),
        (run_papers, ["reproduce", "gar-splits"]),
    ],
)
def test_other_commands_that_train_are_refused_there(tmp_path, monkeypatch, command, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "4")
    one_line(command(*words), "4 times", "without torchrun")
    assert list(tmp_path.iterdir()) == []


def test_help_does_not_wait_for_the_first_process(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    answer = run("train", "--help")
    assert answer.code == 0
    assert "--held-out" in answer.out


def test_one_process_of_torchrun_is_not_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    one_line(run("train", tmp_path / "nowhere"), "nowhere")


def test_the_check_with_no_rows_leaves_a_frozen_layer_in_evaluation_mode() -> None:
    student = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3).eval())
    batch = Batch(torch.zeros(1, 2), torch.zeros(1, dtype=torch.long), torch.zeros(1).long())
    _check_no_rows(student, batch, 1)
    assert [part.training for part in student] == [True, False]
