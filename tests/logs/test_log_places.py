"""Numbers arrive where they are sent."""

import logging
import sys

import pytest

from tutelage.errors import MissingExtraError
from tutelage.logs import TensorBoard, to_logger, to_wandb


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
    with pytest.raises(MissingExtraError, match=r"tutelage\[train\]"):
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
