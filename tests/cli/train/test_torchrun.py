"""torchrun starts a command several times, and each of these processes would write the run."""

import subprocess
import sys

import pytest

from tests.trained import one_line, run, run_papers

TWO = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "tutelage_cli")


def test_torchrun_is_refused_with_what_to_use_in_its_place(tmp_path):
    words = ["train", "--epochs", "1", "--seeds", "1", "--controls", "none", "--out", "run"]
    done = subprocess.run(
        [sys.executable, *TWO, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if line.startswith("tutelage: ")]
    assert "2 times (WORLD_SIZE)" in said[0]
    assert "write the same files" in said[0]
    assert "batch normalisation" in said[0]
    assert "--jobs" in said[0]
    assert "--backend ray" in said[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (run, ["train"]),
        (run, ["commentary", "learn", "--teacher", "blending"]),
        (run_papers, ["reproduce", "gar-splits"]),
    ],
)
def test_every_command_that_trains_is_refused_there(tmp_path, monkeypatch, command, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "4")
    one_line(command(*words), "4 times", "without torchrun")
    assert list(tmp_path.iterdir()) == []


def test_one_process_of_torchrun_is_not_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    one_line(run("train", tmp_path / "nowhere"), "nowhere")
