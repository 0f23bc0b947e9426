"""On a full disk or in a closed folder: one line that says what to do, and nothing is lost."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.cli.train.conftest import TAUGHT
from tests.disks import closed, full_disk
from tests.trained import (
    QUICK,
    assert_same_run,
    at_call,
    found,
    one_line,
    run,
    same,
    unfinished,
)
from tutelage.commentaries import commentary
from tutelage_cli import report
from tutelage_cli.train import evaluation, study

LEARN = ["--steps", "2", "--episodes", "2", "--batch-size", "8", "--held-out", "9"]


pytestmark = pytest.mark.usefixtures("report_in_a_word")


def no_room(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_room_as_arrow_says_it(*_: object, **__: object) -> None:
    raise OSError("[Errno 28] Error writing bytes to file.\nDetail: No space left on device")


def test_a_run_that_finds_no_room_to_begin_leaves_nothing(pets, tmp_path):
    with full_disk():
        answer = run("train", pets, *QUICK, "--out", tmp_path / "run")
    one_line(answer, tmp_path / "run", "File too large", "Make room there", "--out")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_was_killed_as_it_began_can_begin_again(trained, pets, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "environment.json").write_text("{}")
    (out / ".settings.json.1").write_text('{"da')
    assert run("train", pets, *QUICK, *TAUGHT, "--out", out).code == 0
    assert_same_run(trained, out)
    assert found(out).keys() == found(trained).keys()


def test_a_checkpoint_without_room_is_told_and_the_run_goes_on(trained, pets, tmp_path):
    out = tmp_path / "run"
    with full_disk(4096):
        answer = run("train", pets, *QUICK, *TAUGHT, "--out", out)
    told = "checkpoint/state.pt", "File too large", f"tutelage train --resume {out}"
    one_line(answer, out, *told)
    assert not [name for name in found(out) if name.rpartition("/")[2].startswith(".")]
    assert run("train", "--resume", out).code == 0
    assert_same_run(trained, out)


MOMENTS: dict[str, tuple[object, str, Any]] = {
    "examples": (evaluation.pq, "write_table", no_room_as_arrow_says_it),
    "commentary": (commentary, "write_atomically", no_room),
    "result": (evaluation, "write_json", no_room),
    "summary": (study, "write_json", no_room),
    "report": (report, "write", no_room),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_no_room_for_what_comes_last_is_told_and_the_run_goes_on(
    trained, tmp_path, monkeypatch, moment
):
    out = tmp_path / "run"
    unfinished(trained, out, "margin-loss-seed0")
    where, name, act = MOMENTS[moment]
    with monkeypatch.context() as patch:
        patch.setattr(where, name, act)
        one_line(run("train", "--resume", out), out, "No space left on device")
    assert run("train", "--resume", out).code == 0
    assert_same_run(trained, out)
    assert found(out).keys() == found(trained).keys()


def test_closed_folders_are_told(trained, pets, tmp_path):
    begun, place = tmp_path / "begun", tmp_path / "place"
    unfinished(trained, begun)
    place.mkdir()
    with closed(tmp_path):
        told = "Permission denied", "Allow writing there"
        one_line(run("train", pets, *QUICK, "--out", place / "run"), place, *told, "--out")
        one_line(run("train", "--resume", begun), begun, *told, f"--resume {begun}")
        learn = ["commentary", "learn", pets, *LEARN, "--out", place / "it"]
        one_line(run(*learn), place / "it.learning", *told, "--out")
        show = ["commentary", "show", trained / "commentary", "--out", place / "it.html"]
        one_line(run(*show), place / "it.html", *told, "--out")
    assert run("train", "--resume", begun).code == 0
    assert_same_run(trained, begun)


def test_learning_without_room_is_told_and_goes_on(pets, tmp_path, monkeypatch):
    words = ["commentary", "learn", pets, *LEARN, "--teacher", "loss", "--out"]
    assert run(*words, tmp_path / "whole").code == 0
    out = tmp_path / "it"
    with full_disk(2048):
        answer = run(*words, out)
    one_line(answer, "it.learning/state.pt", "File too large", "same command again")
    with monkeypatch.context() as patch:
        patch.setattr(commentary, "write_atomically", no_room)
        one_line(run(*words, out), out, "No space left", "Make room there")
    assert not out.exists()
    answer = run(*words, out)
    assert answer.code == 0, answer
    assert "episode" not in answer.out  # both were kept
    weights = [load_file(Path(of) / "weights.safetensors") for of in (tmp_path / "whole", out)]
    assert same(*weights)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it", "whole"]


def test_learning_that_was_killed_as_it_began_can_begin_again(pets, tmp_path):
    kept = tmp_path / "it.learning"
    kept.mkdir()
    (kept / "environment.json").write_text("{}")
    assert run("commentary", "learn", pets, *LEARN, "--out", tmp_path / "it").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_a_later_save_without_room_leaves_the_first(trained, pets, tmp_path, monkeypatch):
    out = tmp_path / "run"
    monkeypatch.setattr(os, "fsync", at_call(os.fsync, 7, no_room))
    one_line(run("train", pets, *QUICK, *TAUGHT, "--out", out), out, "No space left")
    monkeypatch.undo()
    assert sorted(out.rglob("state.pt"))
    assert run("train", "--resume", out).code == 0
    assert_same_run(trained, out)
