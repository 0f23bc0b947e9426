"""A run that was stopped, interrupted or killed ends as if it had never been."""

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.train.conftest import TAUGHT
from tests.trained import (
    QUICK,
    assert_same_run,
    at_call,
    checkpoint,
    found,
    one_line,
    pictures,
    run,
    unchecked,
    unfinished,
)
from tutelage.storage.atomic_files import write_atomically
from tutelage.training.tutor import Tutor
from tutelage_cli.train import student_training, study, worker

pytestmark = pytest.mark.usefixtures("report_in_a_word")


def in_training(monkeypatch: pytest.MonkeyPatch, target: object, name: str, to: Any) -> None:
    """Patch when the first student is about to be trained, not for what is tried before."""
    train = worker.train_student

    def train_patched(*args: Any) -> bool:
        monkeypatch.setattr(target, name, to)
        return train(*args)

    monkeypatch.setattr(worker, "train_student", train_patched)


@pytest.fixture
def acting(monkeypatch) -> Callable[[int, Callable[[], object]], None]:
    """Something happens just before a step of the 30 that three students take, from 1."""

    def at_step(number: int, act: Callable[[], object]) -> None:
        monkeypatch.setattr(
            student_training, "POLL_EVERY", -1.0
        )  # looks for the stop after every step
        in_training(monkeypatch, Tutor, "step", at_call(Tutor.step, number, act))

    return at_step


def stop_file(out: Path) -> Callable[[], object]:
    return lambda: (out / "stop").touch()


def interrupted() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def interrupted_twice() -> None:
    interrupted()
    interrupted()


@pytest.mark.parametrize("step", [1, 5, 14, 29])
def test_stopped_in_mid_epoch_and_resumed_is_the_unbroken_run(
    trained, pets, tmp_path, acting, monkeypatch, step
):
    out = tmp_path / "run"
    acting(step, stop_file(out))
    answer = run("train", pets, *QUICK, *TAUGHT, "--out", out)
    assert answer.code == 130, answer
    assert f"tutelage train --resume {out}" in answer.out
    assert not (out / "summary.json").exists()
    assert not (out / "stop").exists()
    monkeypatch.undo()
    answer = run("train", "--resume", out)
    assert answer.code == 0, answer
    assert_same_run(trained, out)
    assert found(out).keys() == found(trained).keys()


@pytest.mark.parametrize("interrupt", [interrupted, interrupted_twice])
def test_interrupted_in_training_saves_at_once_and_says_how_to_continue(
    trained, pets, tmp_path, acting, monkeypatch, interrupt
):
    out = tmp_path / "run"
    acting(18, interrupt)
    answer = run("train", pets, *QUICK, *TAUGHT, "--out", out)
    assert answer.code == 130, answer
    assert answer.err == ""
    assert f"tutelage train --resume {out}" in answer.out
    stored = checkpoint(out / "students" / "margin-loss-seed0")
    assert stored["tutor"]["steps"] == 8
    assert (stored["state"]["epoch"], stored["state"]["batch"]) == (1, 3)
    assert not (out / "students" / "internal-state-seed0").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.undo()
    assert run("train", "--resume", out).code == 0
    assert_same_run(trained, out)


def full_disk() -> None:
    raise OSError(28, "No space left on device")


def test_full_disk_is_told_in_one_line_and_the_run_goes_on(
    trained, pets, tmp_path, monkeypatch
):
    out = tmp_path / "run"
    monkeypatch.setattr(
        student_training, "write_atomically", at_call(write_atomically, 3, full_disk)
    )
    answer = run("train", pets, *QUICK, *TAUGHT, "--out", out)
    one_line(answer, "No space left on device", out)
    monkeypatch.undo()
    assert run("train", "--resume", out).code == 0
    assert_same_run(trained, out)


def test_stopped_again_and_again_is_the_unbroken_run(
    trained, pets, tmp_path, acting, monkeypatch
):
    out = tmp_path / "run"
    codes, words = [], ["train", pets, *QUICK, *TAUGHT, "--out", out]
    for _ in range(5):
        acting(6, stop_file(out))
        codes.append(run(*words).code)
        monkeypatch.undo()
        words = ["train", "--resume", out]
    assert codes == [130] * 4 + [0]
    assert_same_run(trained, out)


def forbidden(*_: object, **__: object) -> None:
    raise AssertionError("a finished student was trained again")


def test_finished_run_is_not_trained_again(trained, tmp_path, monkeypatch):
    out = tmp_path / "run"
    shutil.copytree(trained, out)
    (out / "report.html").unlink()
    in_training(monkeypatch, Tutor, "step", forbidden)
    before = found(out)
    answer = run("train", "--resume", out)
    assert answer.code == 0, answer
    after = found(out)
    assert (out / "report.html").exists()
    assert {name: after[name] for name in before} == before


def test_student_that_lost_only_its_result_is_judged_again(trained, tmp_path, monkeypatch):
    out = tmp_path / "run"
    unfinished(trained, out)
    in_training(monkeypatch, Tutor, "step", forbidden)
    assert run("train", "--resume", out).code == 0
    assert_same_run(trained, out)


class Marker:
    """Touches a file if it is unpickled without a guard."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "list", "keys", "code"])
def test_damaged_checkpoint_is_told_in_one_line(trained, tmp_path, damage):
    out = tmp_path / "run"
    file = unfinished(trained, out, "margin-loss-seed0") / "checkpoint" / "state.pt"
    whole, marker = file.read_bytes(), tmp_path / "marker"
    if damage in ("list", "keys"):
        torch.save([1] if damage == "list" else {"tutor": {}, "state": {}}, file)
    else:
        file.write_bytes({
            "cut": whole[: len(whole) // 2],
            "empty": b"",
            "noise": b"noise" * 100,
            "code": pickle.dumps(Marker(marker)),
        }[damage])  # fmt: skip
    one_line(run("train", "--resume", out), file, "damaged")
    assert not marker.exists()


@pytest.mark.parametrize(
    "settings",
    [b"", b"{", b"[1]", b"null", b'{"data": "\xff"}', b"[" * 100_000, b'{"nonsense": 1}'],
    ids=["empty", "cut", "list", "null", "latin", "deep", "unknown"],
)
def test_damaged_settings_are_told_in_one_line(tmp_path, settings):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").write_bytes(settings)
    one_line(run("train", "--resume", tmp_path / "run"), tmp_path / "run")


def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "run_study", lambda *_: None)


def test_run_can_be_resumed_from_another_folder(tmp_path, monkeypatch):
    pictures(tmp_path / "pets")
    (tmp_path / "elsewhere").mkdir()
    untrained(monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert run("train", "pets", *QUICK, "--out", "run").code == 130
    monkeypatch.chdir(tmp_path / "elsewhere")
    answer = run("train", "--resume", tmp_path / "run")
    assert answer.code == 130, answer


@pytest.mark.parametrize("change", ["fewer images", "another image", "another label"])
def test_run_is_not_continued_on_other_data(tmp_path, monkeypatch, change):
    pets = pictures(tmp_path / "pets")
    untrained(monkeypatch)
    assert run("train", pets, *QUICK, "--out", tmp_path / "run").code == 130
    for place in range(3):
        file = pets / "cat" / f"0{place}.png"
        if change == "another image":
            shutil.copy(pets / "dog" / f"0{place}.png", file)
        elif change == "another label":
            file.rename(pets / "dog" / f"1{place}-.png")
        else:
            file.unlink()
    one_line(run("train", "--resume", tmp_path / "run"), "run", "data")


KILLED = """
import os, signal, sys
from pathlib import Path
import safetensors.torch
from tests.trained import at_call
from tutelage_cli import cli, report
from tutelage.commentaries import commentary
from tutelage_cli.train import evaluation, student_training, study, worker
from tutelage.training.tutor import Tutor

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def die_in_writing(table, path):
    Path(path).write_bytes(b"PAR1 half a table")
    die()

def die_in_copying(source, target):
    Path(target).mkdir()
    die()

MOMENTS = [
    (Tutor, "step", at_call(Tutor.step, 8, die)),
    (os, "fsync", at_call(os.fsync, 1, die)),  # a file lies there but has not its name
    (os, "replace", at_call(os.replace, 2, die)),
    (evaluation.pq, "write_table", die_in_writing),
    (commentary, "write_json", at_call(commentary.write_json, 1, die)),
    (evaluation, "write_json", at_call(evaluation.write_json, 1, die)),
    (study, "write_json", at_call(study.write_json, 1, die)),
    (report, "write", at_call(report.write, 1, die)),
    (study.shutil, "copytree", die_in_copying),  # of the commentary
]

def arm(moment):
    # What is tried before training does not count.
    train = worker.train_student
    def armed(*args):
        setattr(*moment)
        return train(*args)
    if moment[0] in (report, study, study.shutil):
        setattr(*moment)
    else:
        worker.train_student = armed

def child(words, moment):
    pid = os.fork()
    if pid == 0:
        if moment is not None:
            arm(moment)
        os._exit(cli.main(words))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

run, warm, *words = sys.argv[1:]
write, report.write = report.write, lambda *_: None  # no child could draw if this process had
assert cli.main([*words[:-1], warm]) == 0  # what is imported late is then there in all children
report.write = write
codes = []
for moment in MOMENTS:
    codes.append(child(words, moment))
    words = ["train", "--resume", run]
assert codes == [-signal.SIGKILL] * len(codes), codes
assert child(words, None) == 0
"""


def python(*words: object, **options: Any) -> subprocess.Popen[str]:
    """A process of its own group."""
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


@contextlib.contextmanager
def command(*words: object) -> Iterator[subprocess.Popen[str]]:
    """The command line in a process group that does not outlive the block."""
    with python("-m", "tutelage", *words) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_for(file: Path, process: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + 60
    while not file.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.fixture(scope="module")
def killed(pets, tmp_path_factory) -> Path:
    """A run that was killed nine times, each time resumed, and came to its end."""
    out = tmp_path_factory.mktemp("runs") / "killed"
    words = ["train", pets, *QUICK, *TAUGHT, "--out", out]
    with python("-c", KILLED, out, out.with_name("warm"), *words) as process:
        printed = process.communicate(timeout=120)
    assert process.returncode == 0, printed
    return out


def test_killed_at_many_moments_and_resumed_is_the_unbroken_run(trained, killed):
    assert_same_run(trained, killed)
    one, other = (found(folder / "commentary") for folder in (trained, killed))
    assert one.keys() == other.keys()
    assert one["weights.safetensors"] == other["weights.safetensors"]


def test_killed_writes_leave_no_files_to_pile_up(trained, killed):
    assert found(killed).keys() == found(trained).keys()


LONGER = [*QUICK[2:], "--epochs", 8, "--teacher", "loss"]


@pytest.fixture(scope="module")
def unbroken(pets, tmp_path_factory) -> Path:
    """The run that a signal ends, without one; not to be changed."""
    out = tmp_path_factory.mktemp("runs") / "unbroken"
    with unchecked():
        assert run("train", pets, *LONGER, "--out", out).code == 0
    return out


@pytest.mark.parametrize(
    ("ending", "more"),
    [(signal.SIGINT, []), (signal.SIGTERM, []), (signal.SIGTERM, ["--quiet"])],
)
def test_a_signal_ends_the_command_with_130_and_the_run_goes_on(
    pets, unbroken, tmp_path, ending, more
):
    out = tmp_path / "run"
    with command("train", pets, *LONGER, *more, "--out", out) as process:
        wait_for(out / "students" / "untaught-seed0" / "metrics.jsonl", process)
        process.send_signal(ending)
        printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    if more:  # the result alone on stdout
        assert printed == ""
        assert errors == f"Stopped. Continue with: tutelage train --resume {out}\n"
    else:
        assert errors == ""
        assert f"tutelage train --resume {out}" in printed
    assert run("train", "--resume", out).code == 0
    assert_same_run(unbroken, out)


@pytest.mark.parametrize(
    ("ending", "times"), [(signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGTERM, 1)]
)
def test_a_signal_while_workers_start_ends_without_a_traceback(pets, tmp_path, ending, times):
    # As a terminal or a scheduler does it: every process of the group gets it.
    flags = [*QUICK[2:-1], 2, "--epochs", 200, "--teacher", "loss"]
    out = tmp_path / "run"
    with command("train", pets, *flags, "--out", out) as process:
        wait_for(out / "settings.json", process)
        for _ in range(times):
            time.sleep(1)
            os.killpg(process.pid, ending)
        printed, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
    assert process.returncode == 130
    assert f"tutelage train --resume {out}" in printed


def fault(*_: object) -> None:
    raise RuntimeError("the student's own fault")


def test_a_student_s_own_error_in_a_resumed_run_is_shown_as_it_is(
    pets, tmp_path, acting, monkeypatch
):
    out = tmp_path / "run"
    acting(5, stop_file(out))
    assert run("train", pets, *QUICK, *TAUGHT, "--out", out).code == 130
    monkeypatch.undo()
    in_training(monkeypatch, Tutor, "step", fault)
    with pytest.raises(RuntimeError, match=r"^the student's own fault$"):
        run("train", "--resume", out)
    monkeypatch.undo()
    assert run("train", "--resume", out).code == 0
