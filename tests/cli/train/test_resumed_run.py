"""A run that was stopped, interrupted or killed ends as if it had never been."""

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from joblib.externals.loky import reusable_executor

import tutelage_cli.__main__
from tests.cli.train.conftest import TAUGHT
from tests.cli.train.killing import child, ended
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
    undrawn,
    unfinished,
)
from tutelage.commentaries import commentary
from tutelage.storage.atomic_files import write_atomically
from tutelage.training.tutor import Tutor
from tutelage_cli import report
from tutelage_cli.cli import main
from tutelage_cli.train import evaluation, student_training, study, worker

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


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_in_writing(_: object, path: Path) -> None:
    path.write_bytes(b"PAR1 half a table")
    die()


def die_in_copying(_: object, target: Path) -> None:
    target.mkdir()
    die()


def moments() -> list[tuple[Any, str, Any]]:
    """Functions that kill their process, and where they stand."""
    return [
        (Tutor, "step", at_call(Tutor.step, 8, die)),
        (os, "fsync", at_call(os.fsync, 1, die)),  # a file lies there but has not its name
        (os, "replace", at_call(os.replace, 2, die)),
        (evaluation.pq, "write_table", die_in_writing),
        (commentary, "write_json", at_call(commentary.write_json, 1, die)),
        (evaluation, "write_json", at_call(evaluation.write_json, 1, die)),
        (study, "write_json", at_call(study.write_json, 1, die)),
        (report, "write", die),
        (study.shutil, "copytree", die_in_copying),  # of the commentary
    ]


def killed_at(moment: tuple[Any, str, Any], words: Sequence[str]) -> int:
    with pytest.MonkeyPatch.context() as patch:
        if moment[0] in (report, study, study.shutil):
            patch.setattr(*moment)
        else:  # what is tried before training does not count
            in_training(patch, *moment)
        return main(words)


class Running(NamedTuple):
    """A process of its own group."""

    pid: int
    code: Callable[[float], int | None]
    """its exit code; None where it still runs after so many seconds"""


def started(words: Sequence[str], printed: Path, errors: Path) -> Running:
    with printed.open("w") as out, errors.open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "tutelage", *words],
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    process.returncode = 0  # it is waited for below
    return Running(process.pid, lambda seconds: ended(process.pid, within=seconds))


def forked(words: Sequence[str], printed: Path, errors: Path) -> Running:
    """All that ``python -m tutelage`` does once it has imported what it needs."""

    def act() -> int:
        os.setsid()
        reusable_executor._executor = None  # its processes are those of this one's parent
        sys.argv = ["tutelage", *words]
        with (
            printed.open("w") as out,
            errors.open("w") as err,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            return tutelage_cli.__main__.main()

    pid = child(act)
    return Running(pid, lambda seconds: ended(pid, within=seconds))


Start = Callable[[Sequence[str], Path, Path], Running]


@contextlib.contextmanager
def command(start: Start, folder: Path, *words: object) -> Iterator[Running]:
    """The command line, in a process group that does not outlive the block."""
    process = start([*map(str, words)], folder / "printed", folder / "errors")
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def said(folder: Path) -> tuple[str, str]:
    """What a command wrote to both its streams."""
    printed, errors = (folder / name for name in ("printed", "errors"))
    return printed.read_text(), errors.read_text()


def wait_for(file: Path, process: Running) -> None:
    limit = time.monotonic() + 60
    while not file.exists():
        assert process.code(0) is None
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.fixture(scope="module")
def killed(pets, tmp_path_factory) -> Path:
    """A run that was killed nine times, each time resumed, and came to its end."""
    out = tmp_path_factory.mktemp("runs") / "killed"
    words = [str(word) for word in ("train", pets, *QUICK, *TAUGHT, "--out", out)]
    with unchecked(), undrawn():
        for moment in moments():
            pid = child(partial(killed_at, moment, words))
            assert ended(pid, within=60) == -signal.SIGKILL, moment
            words = ["train", "--resume", str(out)]
        assert run(*words).code == 0
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
    with command(forked, tmp_path, "train", pets, *LONGER, *more, "--out", out) as process:
        wait_for(out / "students" / "untaught-seed0" / "metrics.jsonl", process)
        os.kill(process.pid, ending)
        assert process.code(60) == 130
    printed, errors = said(tmp_path)
    if more:  # the result alone on stdout
        assert printed == ""
        assert errors == f"Stopped. Continue with: tutelage train --resume {out}\n"
    else:
        assert errors == ""
        assert f"tutelage train --resume {out}" in printed
    assert run("train", "--resume", out).code == 0
    assert_same_run(unbroken, out)


@pytest.mark.parametrize(
    ("ending", "times", "start"),
    [(signal.SIGINT, 1, started), (signal.SIGINT, 2, forked), (signal.SIGTERM, 1, forked)],
)
def test_a_signal_while_workers_start_ends_without_a_traceback(
    pets, tmp_path, ending, times, start
):
    # As a terminal or a scheduler does it: every process of the group gets it.
    flags = [*QUICK[2:-1], 2, "--epochs", 200, "--teacher", "loss"]
    out = tmp_path / "run"
    with command(start, tmp_path, "train", pets, *flags, "--out", out) as process:
        wait_for(out / "settings.json", process)
        for _ in range(times):
            time.sleep(1)
            os.killpg(process.pid, ending)
        code = process.code(60)
    printed, errors = said(tmp_path)
    assert "Traceback" not in errors
    assert code == 130
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
