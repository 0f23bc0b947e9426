"""Numbers arrive where they are sent."""

import logging
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tutelage.errors import MissingExtraError
from tutelage.logs import MLflow, TensorBoard, to_logger, to_wandb


class Run:
    """What ``wandb.init`` gives, as far as it is used."""

    def __init__(self) -> None:
        self.logged: list[tuple[dict[str, float], int]] = []

    def log(self, data: dict[str, float], step: int | None = None) -> None:
        assert step is not None
        self.logged.append((data, step))


def test_a_wandb_run_gets_a_dict_and_the_step():
    run = Run()
    to_wandb(run)(3, {"student/loss": 0.5})
    assert run.logged == [({"student/loss": 0.5}, 3)]


def test_a_handler_gets_a_line_and_the_numbers_themselves(caplog):
    logger = logging.getLogger("somebody.else")
    log = to_logger(logger, logging.WARNING)
    numbers = {"student/loss": 0.123456, "teacher/skipped_steps": 2.0, "x": float("nan")}
    with caplog.at_level(logging.WARNING, logger.name):
        log(50, numbers)
        to_logger(logger)(51, numbers)  # info: below the logger's level
    (record,) = caplog.records
    told = "step 50: student/loss 0.1235, teacher/skipped_steps 2, x nan"
    assert record.getMessage() == told
    assert vars(record)["step"] == 50
    assert vars(record)["numbers"] == numbers


def test_without_tensorboard_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[train\]'"):
        TensorBoard(tmp_path / "curves")
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_shows_each_number_once_where_training_went_on(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for steps, start in (((1, 2, 3, 4), None), ((3, 4, 5), 3)):  # stopped after 4, saved at 2
        board = TensorBoard(tmp_path, from_step=start)
        for step in steps:
            board(step, {"student/loss": step + (0.5 if start else 0.0)})
        board.close()
    read = reader.EventAccumulator(str(tmp_path))
    read.Reload()
    seen = {event.step: event.value for event in read.Scalars("student/loss")}
    assert seen == {1: 1.0, 2: 2.0, 3: 3.5, 4: 4.5, 5: 5.5}


class Client:
    """What ``mlflow.MlflowClient`` is, as far as it is used; keeps everything itself."""

    def __init__(self, tracking_uri: str) -> None:
        self.uri = tracking_uri
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, Any] = {}

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        known = self.experiments.get(name)
        return None if known is None else SimpleNamespace(experiment_id=known)

    def create_experiment(self, name: str) -> str:
        return self.experiments.setdefault(name, str(len(self.experiments)))

    def create_run(self, experiment_id: str, run_name: str | None) -> SimpleNamespace:
        number = f"run{len(self.runs)}"
        self.runs[number] = SimpleNamespace(
            experiment=experiment_id, name=run_name, status="RUNNING", points=[]
        )
        return SimpleNamespace(info=SimpleNamespace(run_id=number))

    def update_run(self, run_id: str, status: str) -> None:
        self.runs[run_id].status = status

    def log_batch(self, run_id: str, metrics: list[tuple[str, float, int, int]]) -> None:
        self.runs[run_id].points += [(name, value, step) for name, value, _, step in metrics]

    def set_terminated(self, run_id: str) -> None:
        self.runs[run_id].status = "FINISHED"


@pytest.fixture
def clients(monkeypatch) -> dict[str, Client]:
    """The clients by address, in place of those of an installed mlflow."""
    made: dict[str, Client] = {}
    module, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
    module.__spec__ = ModuleSpec("mlflow", None)
    vars(module)["MlflowClient"] = lambda tracking_uri: made.setdefault(
        tracking_uri, Client(tracking_uri)
    )
    vars(entities)["Metric"] = lambda *values: values
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    return made


def test_mlflow_gets_metrics_in_a_run_of_its_own_which_can_be_continued(clients, tmp_path):
    log = MLflow(tmp_path / "store", name="student", experiment="digits")
    (client,) = clients.values()
    assert client.uri == (tmp_path / "store").as_uri()
    assert os.environ.pop("MLFLOW_ALLOW_FILE_STORE") == "true"
    log.close()
    assert client.runs == {}  # nothing was logged
    log(3, {"student/loss": 0.5, "weights/mean": 1.0})
    log.close()
    run = client.runs[log.run_id]
    assert (run.experiment, run.name, run.status) == ("0", "student", "FINISHED")
    again = MLflow(str(tmp_path / "store"), experiment="digits", run_id=log.run_id)
    assert run.status == "RUNNING"
    again(4, {"student/loss": 0.25})
    first = [("student/loss", 0.5, 3), ("weights/mean", 1.0, 3)]
    assert run.points == [*first, ("student/loss", 0.25, 4)]
    assert list(client.experiments) == ["digits"]


def test_an_address_of_mlflow_is_taken_as_it_is(clients, monkeypatch):
    MLflow("sqlite:///mlflow.db")
    assert list(clients) == ["sqlite:///mlflow.db"]
    assert "MLFLOW_ALLOW_FILE_STORE" not in os.environ
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[mlflow\]'"):
        MLflow("sqlite:///mlflow.db")


def test_the_installed_mlflow_keeps_metrics_in_a_folder(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    with_name = MLflow(tmp_path, name="student")
    with_name(1, {"student/loss": 0.5})
    with_name(2, {"student/loss": 0.25})
    with_name.close()
    client = mlflow.MlflowClient(tracking_uri=tmp_path.as_uri())
    points = client.get_metric_history(with_name.run_id, "student/loss")
    assert [(point.step, point.value) for point in points] == [(1, 0.5), (2, 0.25)]
    assert client.get_run(with_name.run_id).info.status == "FINISHED"
