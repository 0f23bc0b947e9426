"""Whatever a file holds: it is read, or refused in one line that names it; no code is run."""

import contextlib
import json
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.hostile import changed_bytes, changed_json, changed_value, changed_yaml
from tests.trained import unchecked
from tutelage.commentaries import load_commentary, read_card, save_commentary
from tutelage.commentaries.card import caution
from tutelage.errors import UsageError
from tutelage.models import MaskUNet, TwoBlockCNN, build_student
from tutelage.storage.checkpoint import load_checkpoint, name_damaged_file, save_checkpoint
from tutelage.teachers import (
    AttentionMask,
    Blending,
    CombinedTeacher,
    Curriculum,
    InternalState,
    KeepOrDrop,
    KeepProbability,
    LearnedAugmentation,
    LossWeigher,
    Mixup,
    RandomMask,
    SelfPaced,
)
from tutelage_cli.commentary.show import stand_in
from tutelage_cli.config.settings_files import from_plain, load_settings, to_plain
from tutelage_cli.runner.run_folder import create_run, run_facts, run_settings
from tutelage_cli.train.settings import TrainSettings

STUDENT = build_student("cnn", classes=3, channels=1, size=16, seed=0)
TEACHERS: list[Callable[[], nn.Module]] = [
    lambda: InternalState(STUDENT, classes=3, tap="pool", surface=("margin", "loss")),
    lambda: LossWeigher(width=7),
    lambda: Curriculum(TwoBlockCNN(2, 1, 16)),
    lambda: CombinedTeacher(Blending(3), LossWeigher(width=4)),
    lambda: AttentionMask(MaskUNet(1, width=4, levels=1), sigma=3.0),
    lambda: LearnedAugmentation("standard", most=3, mean=(0.5,), std=(0.05,)),
    lambda: KeepOrDrop(KeepProbability(3)),
    lambda: Mixup(3, alpha=0.4),
    lambda: RandomMask(sigma=3.0),
    lambda: SelfPaced(start=0.25, full_at=0.75),
]


@pytest.fixture(autouse=True)
def _no_code_is_run(tmp_path, monkeypatch) -> Iterator[None]:
    """What would run leaves a file MARKER in the working folder; nothing may take long."""

    def late(*_: object) -> None:
        raise AssertionError("took too long")

    place = tmp_path / "working"
    place.mkdir()
    monkeypatch.chdir(place)
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 300)
    with unchecked():  # as users run it
        yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    assert list(place.iterdir()) == []


def refused(read: Callable[[], object], file: Path) -> bool:
    """Whether reading was refused; anything but one clear line fails."""
    try:
        with contextlib.redirect_stderr(None):
            read()
    except UsageError as error:
        told = str(error)
        assert str(file) in told, told
        assert len(told.splitlines()) == 1, told
        assert len(told) < 10_000, len(told)  # ten mistakes, each with all that is allowed
        return True
    return False


@pytest.mark.filterwarnings("ignore")  # torch's about odd sizes
def test_no_commentary_does_harm(tmp_path):
    draw, count = random.Random(0), 0
    folders = []
    for number, make in enumerate(TEACHERS):
        folders.append(tmp_path / f"{number}")
        save_commentary(make(), folders[-1])
    for _ in range(700):
        folder = draw.choice(folders)
        file = folder / draw.choice(["commentary.json"] * 3 + ["weights.safetensors"])
        whole = file.read_bytes()
        change = changed_json if file.suffix == ".json" else changed_bytes
        file.write_bytes(change(whole, draw))

        def read(folder: Path = folder) -> None:
            card = read_card(folder)
            load_commentary(folder, stand_in(card["settings"]))
            load_commentary(folder, STUDENT, classes=("a", "b", "c"), sides=(16, 16))
            caution(card)

        count += refused(read, folder)
        file.write_bytes(whole)
    assert 200 < count < 700


SETTINGS = """
data: some/where
teacher: [margin-loss, 'loss']
student: cnn
noise: flip2:0.4
held-out: 20
lr: 1e-1
decay_at: &d [0.5, 0.75]
limit: null
augment: none
epochs: 0x3
seeds: 2
"""


def test_no_settings_file_does_harm(tmp_path):
    file, draw, count = tmp_path / "settings.yaml", random.Random(0), 0
    file.write_text(SETTINGS)
    assert load_settings(TrainSettings, file).epochs == 3
    for _ in range(600):
        file.write_bytes(changed_yaml(SETTINGS.encode(), draw))
        count += refused(lambda: load_settings(TrainSettings, file), file)
    assert 200 < count < 600


def test_no_stored_settings_or_facts_do_harm(tmp_path):
    run, draw, count = tmp_path / "run", random.Random(0), 0
    create_run(run, to_plain(TrainSettings(data="x", teacher=("loss",))), {"data": "abc"})
    for name in ("settings.json", "environment.json"):
        file = run / name
        whole = file.read_bytes()
        for _ in range(200):
            file.write_bytes(changed_json(whole, draw))

            def read() -> None:
                from_plain(TrainSettings, run_settings(run), str(run))
                run_facts(run).get("data")

            count += refused(read, run)
        file.write_bytes(whole)
    assert 100 < count < 400


def test_no_bytes_of_a_checkpoint_do_harm(tmp_path):
    file, draw, count = tmp_path / "state.pt", random.Random(0), 0
    state: dict[str, Any] = {"steps": 3, "teacher": {"w": torch.arange(20.0)}, "window": [[1]]}
    save_checkpoint(file, state)
    whole = file.read_bytes()

    def read() -> None:
        with name_damaged_file(file, "Delete it."):
            assert load_checkpoint(file, torch.device("cpu"))["teacher"]["w"][3] == 3

    for _ in range(300):
        file.write_bytes(changed_bytes(whole, draw))
        count += refused(read, file)
    assert count > 250


def test_the_changes_change_something():
    draw = random.Random(0)
    plain = {"a": [1, {"b": "c"}], "d": None}
    assert sum(repr(changed_value(plain, draw)) != repr(plain) for _ in range(100)) > 90
    assert sum(changed_json(json.dumps(plain).encode(), draw) != plain for _ in range(9)) == 9
