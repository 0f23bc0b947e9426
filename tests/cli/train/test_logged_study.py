"""Curves of a study: asked for by a flag, told in one line where they cannot be written."""

import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest

from tests.trained import QUICK, lines, one_line, pictures, run, students, unchecked
from tutelage_cli.runner import trackers
from tutelage_cli.train import student_training, study
from tutelage_cli.train.check import check
from tutelage_cli.train.material import seed_material
from tutelage_cli.train.settings import TrainSettings


@pytest.fixture(autouse=True)
def _unchecked():
    with unchecked():
        yield


@pytest.fixture
def board(monkeypatch) -> list["Board"]:
    """The boards that were opened, in place of those of an installed tensorboard."""
    module = ModuleType("tensorboard")
    module.__spec__ = ModuleSpec("tensorboard", None)
    monkeypatch.setitem(sys.modules, "tensorboard", module)
    monkeypatch.setattr(trackers, "TensorBoard", Board)
    Board.opened.clear()
    return Board.opened


class Board:
    """Keeps what TensorBoard would show."""

    opened: ClassVar[list["Board"]] = []

    def __init__(self, folder: Path, *, from_step: int) -> None:
        self.folder, self.from_step, self.closed = folder, from_step, False
        self.told: dict[int, dict[str, float]] = {}
        folder.mkdir(exist_ok=True)
        self.opened.append(self)

    def __call__(self, step: int, numbers: Mapping[str, float]) -> None:
        self.told.setdefault(step, {}).update(numbers)

    def close(self) -> None:
        self.closed = True


def test_every_student_has_curves_of_its_own(tmp_path, board):
    pets = pictures(tmp_path / "pets")
    flags = ["--log", "tensorboard", "--log-every", 2, "--out", tmp_path / "run"]
    answer = run("train", pets, *QUICK, "--teacher", "margin-loss", *flags)
    assert answer.code == 0, answer
    assert f"tensorboard --logdir {tmp_path / 'run'}" in answer.out
    folders = students(tmp_path / "run")
    assert sorted(b.folder for b in board) == [f / "tensorboard" for f in folders]
    for one in board:
        assert one.closed
        assert one.from_step == 1
        assert list(one.told) == [2, 4, 5, 6, 8, 10]  # and at the end of both epochs
        assert "student/loss" in one.told[8]
        entries = lines(one.folder.parent)
        for step, entry in zip((5, 10), entries, strict=True):
            assert one.told[step]["epoch/test_accuracy"] == entry["test_accuracy"]
    (taught,) = (b for b in board if b.folder.parent.name == "margin-loss-seed0")
    assert "teacher/hypergradient_norm" in taught.told[6]


def test_a_student_that_goes_on_tells_the_steps_that_are_left(tmp_path, board, monkeypatch):
    pets = pictures(tmp_path / "pets")
    settings = TrainSettings(str(pets), epochs=2, held_out=9, batch_size=8, controls=("none",))
    material = seed_material(check(settings), settings, 0)
    job = student_training.Job(tmp_path, "margin-loss", 0, settings, log_every=1)
    monkeypatch.setattr(
        student_training, "POLL_EVERY", -1.0
    )  # looks for the stop after every step
    asked = iter([False, False, True])
    assert not student_training.train_student(job, material, lambda: next(asked))
    assert student_training.train_student(job, material, lambda: False)
    first, second = board
    assert list(first.told) == [1, 2, 3]
    assert second.from_step == 4
    assert list(second.told) == [4, 5, 6, 7, 8, 9, 10]
    assert first.closed


def test_a_stopped_run_says_how_to_go_on_with_its_curves(tmp_path, board, monkeypatch):
    monkeypatch.setattr(study, "run_study", lambda *_: None)
    pets, out = pictures(tmp_path / "pets"), tmp_path / "run"
    answer = run("train", pets, *QUICK, "--out", out, "--log", "tensorboard", "--log-every", 3)
    assert answer.code == 130
    assert f"--resume {out} --log tensorboard --log-every 3" in answer.out
    assert all(b.closed for b in board)


def test_without_a_flag_nothing_is_logged(tmp_path, board, monkeypatch):
    seen = []
    monkeypatch.setattr(study, "run_study", lambda *given: seen.append(given[4]))
    pets = pictures(tmp_path / "pets")
    for flags, every in (([], 0), (["--log", "tensorboard"], 50)):
        out = tmp_path / f"run{every}"
        assert run("train", pets, *QUICK, "--out", out, *flags).code == 130
        assert seen.pop() == every
    assert board == []


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (["--log", "tensorboard"], ["tensorboard is not installed", ".[train]"]),
        (["--log", "mlflow"], ["mlflow is not installed", ".[mlflow]"]),
        (["--log", "wandb"], ["wandb is not installed", ".[wandb]"]),
        (["--log", "tensorboard", "--log-every", 0], ["--log-every", "at least 1", "got 0"]),
        (["--log-every", 5], ["--log-every does nothing", "--log tensorboard"]),
    ],
)
def test_curves_that_cannot_be_written_are_told_in_one_line(
    tmp_path, monkeypatch, flags, parts
):
    for module in ("tensorboard", "mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, module, None)
    pets = pictures(tmp_path / "pets")
    one_line(run("train", pets, *QUICK, *flags, "--out", tmp_path / "run"), *parts)
    assert not (tmp_path / "run").exists()


class WandB(ModuleType):
    """Keeps what Weights & Biases would get."""

    class Error(Exception):
        """What it raises."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.__spec__ = ModuleSpec("wandb", None)
        self.runs: list[SimpleNamespace] = []
        self.fault: Exception | None = None

    def init(self, **given: object) -> SimpleNamespace:
        """A run."""
        if self.fault is not None:
            raise self.fault
        numbers: dict[int, dict[str, float]] = {}
        run_ = SimpleNamespace(
            **given | {"id": given["id"] or f"run{len(self.runs)}"},
            numbers=numbers,
            log=lambda found, step: numbers.setdefault(step, {}).update(found),
            finished=False,
        )
        run_.finish = lambda: setattr(run_, "finished", True)
        self.runs.append(run_)
        return run_


@pytest.fixture
def wandb(monkeypatch) -> WandB:
    """In place of the installed one."""
    module = WandB()
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_every_student_is_a_run_of_wandb(tmp_path, wandb):
    pets, out = pictures(tmp_path / "pets"), tmp_path / "run"
    flags = ["--teacher", "margin-loss", "--log", "wandb", "--log-every", 5, "--out", out]
    assert run("train", pets, *QUICK, *flags).code == 0
    assert [r.name for r in wandb.runs] == ["untaught, seed 0", "margin-loss, seed 0"]
    for number, one in enumerate(wandb.runs):
        assert (one.group, one.project, one.finished) == ("run", "tutelage", True)
        assert list(one.numbers) == [5, 10]
        assert {"student/loss", "epoch/test_accuracy"} <= set(one.numbers[10])
        file = next((out / "students").glob(f"{one.name.split(',')[0]}*")) / "wandb-run"
        assert file.read_text() == f"run{number}"
    (out / "students" / "margin-loss-seed0" / "result.json").unlink()
    assert run("train", "--resume", out, "--log", "wandb").code == 0
    assert wandb.runs[-1].id == "run1"


def test_what_wandb_refuses_is_told_in_one_line(tmp_path, wandb):
    wandb.fault = wandb.Error("No API key configured.\nUse `wandb login` to log in.")
    flags = ["--log", "wandb", "--out", tmp_path / "run"]
    answer = run("train", pictures(tmp_path / "pets"), *QUICK, *flags)
    one_line(answer, "--log wandb", "No API key", "WANDB_MODE=offline")


def test_every_student_is_a_run_of_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv(trackers.STORE, raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    pets, out = pictures(tmp_path / "pets"), tmp_path / "run"
    flags = ["--teacher", "margin-loss", "--log", "mlflow", "--log-every", 5, "--out", out]
    assert run("train", pets, *QUICK, *flags).code == 0
    client = mlflow.MlflowClient(tracking_uri=(out / "mlflow").as_uri())
    (student,) = (
        of
        for of in client.search_runs([client.get_experiment_by_name("run").experiment_id])
        if of.info.run_name == "margin-loss, seed 0"
    )
    points = client.get_metric_history(student.info.run_id, "epoch/test_accuracy")
    entries = lines(out / "students" / "margin-loss-seed0")
    assert [point.step for point in points] == [entry["step"] for entry in entries]
    assert [point.value for point in points] == [entry["test_accuracy"] for entry in entries]


def test_an_unknown_log_is_refused(tmp_path):
    answer = run("train", *QUICK, "--log", "paper", "--out", tmp_path / "run")
    assert answer.code == 2
    assert "tensorboard" in answer.err
    assert not (tmp_path / "run").exists()
