"""Whatever a run's own files hold: it goes on, or says in one line which file is damaged."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.hostile import changed_bytes, changed_json, changed_value
from tests.trained import assert_same_run, one_line, run, unfinished
from tutelage.errors import UsageError
from tutelage.storage.checkpoint import save_checkpoint
from tutelage_cli import report
from tutelage_cli.config.settings_files import from_plain
from tutelage_cli.runner.run_folder import run_settings
from tutelage_cli.train import student_training
from tutelage_cli.train.job import Job
from tutelage_cli.train.job_files import (
    read_example_table,
    read_history,
    read_result,
    read_weight_history,
)
from tutelage_cli.train.material import read_source, seed_material
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.student_training import train_student

STUDENT = "margin-loss-seed0"


@pytest.fixture(autouse=True)
def _report_in_a_word() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "write", lambda _, path: path.write_text("report"))
        yield


def refused(act: Callable[[], object], file: Path) -> bool:
    try:
        act()
    except UsageError as error:
        told = str(error)
        assert str(file) in told, told
        assert len(told.splitlines()) == 1, told
        assert len(told) < 3000
        return True
    return False


LEFT = {
    "result.json": (changed_json, lambda job: read_result(job)),
    "metrics.jsonl": (changed_bytes, lambda job: read_history(job)),
    "examples.parquet": (changed_bytes, lambda job: read_example_table(job, 39, 3)),
    "history.parquet": (
        changed_bytes,
        lambda job: read_weight_history(job, read_example_table(job, 39, 3)["id"]),
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_nothing_that_a_student_left_does_harm(trained, tmp_path, name):
    unfinished(trained, tmp_path / "run", "untaught-seed0")
    settings = from_plain(TrainSettings, run_settings(trained))
    job = Job(tmp_path / "run", "margin-loss", 0, settings)
    change, read = LEFT[name]
    file, draw, count = job.folder / name, random.Random(0), 0
    whole = file.read_bytes()
    read(job)
    for _ in range(150):
        file.write_bytes(change(whole, draw))
        count += refused(lambda: read(job), file)
    assert 30 < count <= 150


@pytest.mark.parametrize("name", LEFT)
def test_what_is_damaged_of_a_student_is_made_again_as_it_was_told(trained, tmp_path, name):
    out = tmp_path / "run"
    unfinished(trained, out, "untaught-seed0")
    file = out / "students" / STUDENT / name
    file.write_bytes(file.read_bytes()[:20])
    one_line(run("train", "--resume", out), file, "is damaged", "result.json")
    (file.parent / "result.json").unlink()
    assert run("train", "--resume", out).code == 0
    assert_same_run(trained, out)


def test_damaged_facts_of_a_run_are_told(trained, tmp_path):
    out = tmp_path / "run"
    unfinished(trained, out)
    (out / "environment.json").write_text('{"data"')
    one_line(run("train", "--resume", out), out, "environment.json")


def changed_state(state: Any, draw: random.Random) -> Any:
    """A checkpoint with something else somewhere in it: a value, a key, a tensor's shape."""
    if isinstance(state, Tensor):
        other = [
            state.flatten()[:-1],
            state[None],
            state.double(),
            state.to(torch.bool),
            3,
            None,
        ]
        return draw.choice(other)
    if isinstance(state, dict | list) and state and draw.random() < 0.9:
        place = draw.choice(list(state) if isinstance(state, dict) else range(len(state)))
        if isinstance(state[place], dict | list | Tensor):
            inside = changed_state(state[place], draw)
            if isinstance(state, dict):
                return state | {place: inside}
            return [*state[:place], inside, *state[place + 1 :]]
    return changed_value(state, draw)


@pytest.mark.filterwarnings("ignore")  # of odd shapes
def test_no_content_of_a_checkpoint_does_harm(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(student_training, "POLL_EVERY", -1.0)
    settings = from_plain(TrainSettings, run_settings(trained))
    material = seed_material(read_source(settings), settings, 0)
    job, draw, count = Job(tmp_path / "run", "margin-loss", 0, settings), random.Random(0), 0

    def after(number: int) -> Callable[[], bool]:
        calls = iter(range(10**9))
        return lambda: next(calls) >= number

    assert not train_student(job, material, after(6))  # in the second epoch
    state = torch.load(job.checkpoint, weights_only=True)
    for _ in range(80):
        torch.save(changed_state(state, draw), job.checkpoint)
        count += refused(lambda: train_student(job, material, after(2)), job.checkpoint)
        (job.folder / "result.json").unlink(missing_ok=True)
    assert 20 < count < 80
    save_checkpoint(job.checkpoint, state)
    assert train_student(job, material, lambda: False)
    lines = (job.folder / "metrics.jsonl").read_text().splitlines()
    whole = (trained / "students" / STUDENT / "metrics.jsonl").read_text().splitlines()
    for one, other in zip(lines, whole, strict=True):
        taken = {"seconds": 0, "memory": 0}
        assert json.loads(one) | taken == json.loads(other) | taken
