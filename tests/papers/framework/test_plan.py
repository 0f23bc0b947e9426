"""Finished jobs are found again for the same settings, and for no others."""

from pathlib import Path

import pytest

from papers.__main__ import parse
from papers.framework import plan as planning
from papers.framework.args import Reproduce
from papers.framework.plan import make_plan
from tests.papers.framework.tiny import RECIPE, Settings
from tutelage.errors import UsageError


def folder(**changes) -> Path:
    asked = Reproduce("tiny", **({"out": Path("out"), "device": "cpu"} | changes))
    return make_plan(RECIPE, asked).folder


def test_the_same_settings_lead_to_the_same_folder():
    assert folder() == folder() == folder(seeds=5, backend="ray", jobs=2, set=("gain=1",))


def test_other_settings_scales_devices_and_releases_lead_elsewhere(monkeypatch):
    places = [folder(), folder(set=("gain=2",)), folder(set=("epochs=3",))]
    places += [folder(scale="gpu"), folder(scale="paper")]
    monkeypatch.setattr(planning.torch.cuda, "is_available", lambda: True)
    places.append(folder(device="cuda"))
    monkeypatch.setattr(planning, "environment", lambda: {"torch": "9.9"})
    places.append(folder())
    assert len(set(places)) == len(places)


def test_settings_given_in_words_are_read_by_their_type():
    asked = Reproduce("tiny", out=Path("out"), set=("gain=2e-1", "epochs=7"), device="cpu")
    found = make_plan(RECIPE, asked)
    assert found.settings == Settings(gain=0.2, epochs=7)
    assert found.changed == {"gain": 0.2, "epochs": 7}
    assert len(found.jobs) == 9
    assert [(job.arm, job.seed) for job in found.jobs[:4]] == [
        ("plain", 0),
        ("gar", 0),
        ("broken", 0),
        ("plain", 1),
    ]


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("gian=2", "did you mean 'gain'"),
        ("gain=much", "gain: 'much', wanted float"),
        ("gain", "KEY=VALUE"),
        ("gain=[", "cannot be read"),
        ("epochs=0", "at least 1"),
    ],
)
def test_a_wrong_setting_is_refused(word, part):
    with pytest.raises(UsageError, match=part):
        folder(set=(word,))


@pytest.mark.parametrize(
    "words",
    [
        ["--set", "epochs=2", "lr=3"],
        ["--set", "epochs=2", "--set", "lr=3"],
        ["--set=epochs=2", "--out", "x", "--set=lr=3"],
    ],
)
def test_settings_are_kept_of_each_set(words):
    args = parse(["reproduce", "gar-splits", *words])
    assert isinstance(args, Reproduce)
    assert (args.recipe, args.set) == ("gar-splits", ("epochs=2", "lr=3"))
