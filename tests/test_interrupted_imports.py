"""An interrupt that comes while packages are imported ends the command like any other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tutelage
from tests.trained import run
from tutelage.errors import MissingExtraError, interrupted
from tutelage_cli import __main__ as command
from tutelage_cli.train import command as study_command

INTERRUPT = "raise KeyboardInterrupt"
AS_ITS_OWN = """
try:
    raise KeyboardInterrupt
except BaseException as error:
    raise ImportError("torch is broken") from error
"""


def the_command(*words: str, before: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder whose modules come before those that are installed."""
    paths = f"{before}{os.pathsep}{Path(tutelage.__file__).parents[1]}"
    return subprocess.run(
        [sys.executable, "-m", "tutelage_cli", *words],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=before,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("package", "content", "words"),
    [("tyro", INTERRUPT, ["--help"]), ("torch", AS_ITS_OWN, ["train", "mnist5k"])],
)
def test_an_interrupt_during_imports_ends_with_130(tmp_path, package, content, words):
    (tmp_path / f"{package}.py").write_text(content)
    done = the_command(*words, before=tmp_path)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "tutelage: interrupted.\n"


def test_sigterm_while_the_data_are_read_ends_with_130(tmp_path):
    terminated = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    (tmp_path / "torch.py").write_text(terminated)
    done = the_command("train", "mnist5k", before=tmp_path)
    assert (done.returncode, done.stderr) == (130, "tutelage: interrupted.\n")


def test_a_missing_extra_that_was_an_interrupt_is_one(monkeypatch):
    def broken(_: object) -> None:
        try:
            raise KeyboardInterrupt
        except BaseException as error:
            raise MissingExtraError("torchvision", "train") from error

    monkeypatch.setattr(study_command, "train", broken)
    answer = run("train", "mnist5k")
    assert (answer.code, answer.err) == (130, "tutelage: interrupted.\n")


def test_other_errors_are_none():
    assert not interrupted(None)
    assert not interrupted(ImportError("no torch"))


def test_what_is_installed_is_this_command():
    project = Path(tutelage.__file__).parents[2] / "pyproject.toml"
    assert f'tutelage = "{command.__name__}:main"' in project.read_text(encoding="utf-8")
