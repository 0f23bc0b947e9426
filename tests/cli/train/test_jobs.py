"""What a job's settings say of its training."""

from pathlib import Path

import pytest

from tutelage_cli.train.job import Job, learning_rate
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.step_seconds import Work
from tutelage_cli.train.study import SHORT, default_jobs


@pytest.mark.parametrize(
    ("epochs", "rates"),
    [(1, [1.0]), (2, [1.0, 0.01]), (3, [1.0, 1.0, 0.01]), (6, [1.0] * 4 + [0.1, 0.01])],
)
def test_the_first_epoch_has_the_whole_learning_rate(epochs, rates) -> None:
    settings = TrainSettings(epochs=epochs, lr=1.0)
    assert [learning_rate(settings, n) for n in range(epochs)] == pytest.approx(rates)


@pytest.mark.parametrize(
    ("seconds", "jobs"), [(0.4 * SHORT, 1), (0.6 * SHORT, 4), (float("nan"), 4)]
)
def test_a_short_run_starts_no_worker_processes(monkeypatch, seconds, jobs) -> None:
    monkeypatch.setattr("tutelage_cli.train.study.os.cpu_count", lambda: 4)
    settings = TrainSettings(device="cpu")
    of_seeds = [Job(Path("run"), "untaught", seed, settings) for seed in range(2)]
    stages = [{job: Work(10, seconds)} for job in of_seeds]
    assert default_jobs(settings, stages) == jobs
